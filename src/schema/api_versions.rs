//! ApiVersions, API key 18 (KIP-35, KIP-511, KIP-584): what a server can do, asked first on every connection.
//!
//! A controller's answer also names the finalized features of the cluster, which decide whether a registration is accepted.
//!
//! Source: Kafka's `ApiVersionsRequest.json` and `ApiVersionsResponse.json`. v5 came with 4.4 (KIP-1242).

use std::fmt::Write;

use super::names::{self, Names};
use super::{Api, Field, Message, Versions, array, boolean, feature, int16, int32, int64, string, structure};
use crate::register::{Register, Suspicions, Text};
use crate::rule::Group::Response;
use crate::rule::Severity::{Error, Note};
use crate::rule::{Case, Check, Facts, Report, Rule};
use crate::tape::View;
use crate::wire::write_text;

/// The API. A server that does not know the version of the request answers in v0 with error 35.
pub static API: Api = Api::new(18, REQUEST, RESPONSE).refuses_in_oldest();

/// What the client asks.
pub const REQUEST: Message =
    Message::new("ApiVersionsRequest", Versions::range(0, 5), Versions::since(3), REQUEST_FIELDS).info(request_info);

const REQUEST_FIELDS: &[Field] = &[
    string("ClientSoftwareName").since(3).about("Name of the client's software, KIP-511."),
    string("ClientSoftwareVersion").since(3).about("Version of the client's software, KIP-511."),
    string("ClusterId").since(5).nullable().about("Cluster that the client means to reach; null if it does not know."),
    int32("NodeId").since(5).about("Node that the client means to reach; -1 if it does not know."),
];

fn request_info(request: &View, out: &mut String) {
    const NAME: u16 = REQUEST.ord("ClientSoftwareName");
    const VERSION: u16 = REQUEST.ord("ClientSoftwareVersion");
    if let (Some(name), Some(version)) = (request.text(NAME), request.text(VERSION)) {
        out.push_str(", ");
        write_text(name, out);
        out.push(' ');
        write_text(version, out);
    }
}

/// What the server can do.
pub const RESPONSE: Message =
    Message::new("ApiVersionsResponse", Versions::range(0, 5), Versions::since(3), RESPONSE_FIELDS)
        .info(response_info)
        .checks(RESPONSE_CHECKS)
        .learn(learn_response);

const RESPONSE_FIELDS: &[Field] = &[
    int16("ErrorCode").names(Names::ErrorCodes).about("Error code; 0 if there was no error."),
    array("ApiKeys", &SUPPORTED_API).about("APIs that the server offers."),
    int32("ThrottleTimeMs").since(1).about("Milliseconds for which a quota held the request back; 0 if none did."),
    array("SupportedFeatures", &SUPPORTED_FEATURE)
        .since(3)
        .tag(0)
        .about("Features that the server supports; up to v3 without those of minimum 0."),
    int64("FinalizedFeaturesEpoch")
        .since(3)
        .tag(1)
        .about("Metadata offset at which the finalized features hold; -1 if they are not known yet."),
    array("FinalizedFeatures", &FINALIZED_FEATURE)
        .since(3)
        .tag(2)
        .about("Features that are finalized in the cluster; valid if their epoch is not -1."),
    boolean("ZkMigrationReady").since(3).tag(3).about("Whether a controller is set up for a migration from ZooKeeper."),
];

/// In Kafka `ApiVersion`, which in filters is the version in the header.
const SUPPORTED_API: Field = structure(
    "ApiVersion",
    &[
        int16("ApiKey").names(Names::ApiKeys).about("API key."),
        int16("MinVersion").about("Oldest version offered."),
        int16("MaxVersion").about("Newest version offered."),
    ],
)
.filter("supported_api")
.label(api_label);

/// `BrokerRegistration v0-v4`.
fn api_label(api: &View, out: &mut String) {
    const KEY: u16 = RESPONSE.ord("ApiKeys.ApiVersion.ApiKey");
    const MIN: u16 = RESPONSE.ord("ApiKeys.ApiVersion.MinVersion");
    const MAX: u16 = RESPONSE.ord("ApiKeys.ApiVersion.MaxVersion");
    if let (Some(key), Some(min), Some(max)) = (api.int(KEY), api.int(MIN), api.int(MAX)) {
        let _ = match Names::ApiKeys.of(key) {
            Some(name) => write!(out, "{name} v{min}-v{max}"),
            None => write!(out, "API key {key} v{min}-v{max}"),
        };
    }
}

const SUPPORTED_FEATURE: Field = structure(
    "SupportedFeature",
    &[
        string("Name").about("Name of the feature."),
        int16("MinVersion").about("Lowest level supported."),
        int16("MaxVersion").about("Highest level supported."),
    ],
)
.label(supported_label);

fn supported_label(supported: &View, out: &mut String) {
    const NAME: u16 = RESPONSE.ord("SupportedFeatures.SupportedFeature.Name");
    const MIN: u16 = RESPONSE.ord("SupportedFeatures.SupportedFeature.MinVersion");
    const MAX: u16 = RESPONSE.ord("SupportedFeatures.SupportedFeature.MaxVersion");
    feature::write_range(supported.text(NAME), supported.int(MIN), supported.int(MAX), out);
}

const FINALIZED_FEATURE: Field = structure(
    "FinalizedFeature",
    &[
        string("Name").about("Name of the feature."),
        int16("MaxVersionLevel").about("Finalized level of the feature."),
        int16("MinVersionLevel").about("Lowest finalized level; the same as the highest in today's releases."),
    ],
)
.label(finalized_label);

fn finalized_label(finalized: &View, out: &mut String) {
    const NAME: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.Name");
    const MAX: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.MaxVersionLevel");
    const MIN: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.MinVersionLevel");
    feature::write_range(finalized.text(NAME), finalized.int(MIN), finalized.int(MAX), out);
}

/// The finalized metadata.version, which decides who may join: `, metadata.version 21 (3.9-IV0)`.
fn response_info(response: &View, out: &mut String) {
    const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
    const FINALIZED: u16 = RESPONSE.ord("FinalizedFeatures");
    const NAME: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.Name");
    if super::write_error(response.int(ERROR_CODE), out) {
        return;
    }
    let mut finalized = response.structs(FINALIZED).take(MAX_FEATURES);
    if let Some(feature) = finalized.find(|feature| feature.text(NAME) == Some(feature::METADATA_VERSION)) {
        out.push_str(", ");
        finalized_label(&feature, out);
    }
}

const RESPONSE_CHECKS: &[Check] = &[
    Check::new(
        Rule::new("version_refused", Note, Response, "The server does not know this version of ApiVersions"),
        &[
            "The server does not know this version of ApiVersions and answers in v0; the client asks again in a version that is \
           offered (KIP-511)",
        ],
        |case, report| refused(case, report, |code| code == UNSUPPORTED_VERSION, 0),
    ),
    Check::new(
        Rule::new("api_versions_refused", Error, Response, "The server does not tell what it can do"),
        &["The server refused with {0:error} ({0})"],
        |case, report| refused(case, report, |code| code != UNSUPPORTED_VERSION && code != 0, 0),
    ),
];

const UNSUPPORTED_VERSION: i64 = names::code("UNSUPPORTED_VERSION");
/// Finalized features that are remembered of one controller.
const MAX_FEATURES: usize = 64;

fn refused(case: &Case, report: &mut Report, is_it: fn(i64) -> bool, text: u8) {
    const ERROR_CODE: u16 = RESPONSE.ord("ErrorCode");
    let Some(found) = case.message.find(ERROR_CODE) else { return };
    if let Some(code) = found.int().filter(|code| is_it(*code)) {
        report.find(text, found.place(), None, [code, 0, 0]);
    }
}

/// Takes down the finalized features: they decide which registrations on this connection are accepted.
fn learn_response(case: &Facts, register: &mut Register, _: Suspicions) {
    const EPOCH: u16 = RESPONSE.ord("FinalizedFeaturesEpoch");
    const FINALIZED: u16 = RESPONSE.ord("FinalizedFeatures");
    const NAME: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.Name");
    const LEVEL: u16 = RESPONSE.ord("FinalizedFeatures.FinalizedFeature.MaxVersionLevel");
    // At epoch -1 the controller has not read the metadata yet, and what it names means nothing.
    if case.message.int(EPOCH).is_none_or(|epoch| epoch < 0) {
        return;
    }
    let features = case.message.structs(FINALIZED).take(MAX_FEATURES);
    let levels: Vec<(Text, i16)> = features
        .filter_map(|feature| Some((register.text(feature.text(NAME)?), feature.int(LEVEL)?.try_into().ok()?)))
        .collect();
    if let Some(session) = register.session_mut(case.connection) {
        session.finalized = Some((case.id, levels));
    }
}
