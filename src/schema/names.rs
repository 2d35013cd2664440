//! Names of values, as Kafka itself writes them: API keys, error codes, security protocols, metadata.version levels and
//! directory ids.

use super::Versions;

/// Which table names the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The values have no names.
    None,
    /// [`API_KEYS`].
    ApiKeys,
    /// [`error_code`].
    ErrorCodes,
    /// [`SECURITY_PROTOCOLS`].
    SecurityProtocols,
    /// [`reserved_directory`].
    DirectoryIds,
}

impl Names {
    pub(super) const fn is_none(self) -> bool {
        matches!(self, Names::None)
    }

    /// The name of an integer value.
    pub fn of(self, value: i64) -> Option<&'static str> {
        let value = i16::try_from(value).ok()?;
        match self {
            Names::ApiKeys => api_key(value).map(|api| api.name),
            Names::ErrorCodes => error_code(value),
            Names::SecurityProtocols => SECURITY_PROTOCOLS.get(usize::try_from(value).ok()?).copied(),
            Names::None | Names::DirectoryIds => None,
        }
    }

    /// All integer values that have a name, in ascending order.
    pub fn all(self) -> impl Iterator<Item = (i16, &'static str)> {
        (-1..=i16::from(u8::MAX)).filter_map(move |value| Some((value, self.of(i64::from(value))?)))
    }
}

/// What is known of an API without its schema: enough to read its headers.
#[derive(Debug)]
pub struct ApiKey {
    /// The key on the wire.
    pub key: i16,
    /// Kafka's name (`ApiKeys.name`).
    pub name: &'static str,
    /// From the oldest version that any release knew to the newest one of 4.4.
    pub versions: Versions,
    /// Versions with flexible headers.
    pub flexible: Versions,
    /// Its responses have header v0 in every version (ApiVersions: the client may not know the version yet, KIP-511).
    pub plain_response_header: bool,
    /// Versions whose request header ends before the client id.
    pub bare_request_header: Versions,
    /// Controllers listen to it: a connection to one may begin with it.
    pub on_controllers: bool,
    /// Versions after whose success raw SASL tokens follow, without Kafka's header (SaslHandshake v0, KIP-43).
    pub raw_tokens_follow: Versions,
}

impl ApiKey {
    const fn new(key: i16, name: &'static str, first: i16, last: i16) -> ApiKey {
        ApiKey {
            key,
            name,
            versions: Versions::range(first, last),
            flexible: Versions::NONE,
            plain_response_header: false,
            bare_request_header: Versions::NONE,
            on_controllers: false,
            raw_tokens_follow: Versions::NONE,
        }
    }

    const fn flexible_since(mut self, first: i16) -> ApiKey {
        self.flexible = Versions::since(first);
        self
    }

    const fn plain_response_header(mut self) -> ApiKey {
        self.plain_response_header = true;
        self
    }

    const fn on_controllers(mut self) -> ApiKey {
        self.on_controllers = true;
        self
    }

    const fn raw_tokens_follow(mut self, version: i16) -> ApiKey {
        self.raw_tokens_follow = Versions::range(version, version);
        self
    }

    const fn bare_request_header(mut self, version: i16) -> ApiKey {
        self.bare_request_header = Versions::range(version, version);
        self
    }
}

/// Every API key up to Kafka 4.4, the key being the place in the table (Kafka's `ApiKeys` and message definitions; keys
/// 4 to 7 are of releases before 4.0).
pub static API_KEYS: [ApiKey; 95] = [
    ApiKey::new(0, "Produce", 0, 13).flexible_since(9),
    ApiKey::new(1, "Fetch", 0, 18).flexible_since(12).on_controllers(),
    ApiKey::new(2, "ListOffsets", 0, 11).flexible_since(6),
    ApiKey::new(3, "Metadata", 0, 13).flexible_since(9),
    ApiKey::new(4, "LeaderAndIsr", 0, 7).flexible_since(4),
    ApiKey::new(5, "StopReplica", 0, 4).flexible_since(2),
    ApiKey::new(6, "UpdateMetadata", 0, 8).flexible_since(6),
    ApiKey::new(7, "ControlledShutdown", 0, 3).flexible_since(3).bare_request_header(0),
    ApiKey::new(8, "OffsetCommit", 0, 10).flexible_since(8),
    ApiKey::new(9, "OffsetFetch", 0, 10).flexible_since(6),
    ApiKey::new(10, "FindCoordinator", 0, 6).flexible_since(3),
    ApiKey::new(11, "JoinGroup", 0, 9).flexible_since(6),
    ApiKey::new(12, "Heartbeat", 0, 4).flexible_since(4),
    ApiKey::new(13, "LeaveGroup", 0, 5).flexible_since(4),
    ApiKey::new(14, "SyncGroup", 0, 5).flexible_since(4),
    ApiKey::new(15, "DescribeGroups", 0, 6).flexible_since(5),
    ApiKey::new(16, "ListGroups", 0, 5).flexible_since(3),
    ApiKey::new(17, "SaslHandshake", 0, 1).raw_tokens_follow(0).on_controllers(),
    ApiKey::new(18, "ApiVersions", 0, 5).flexible_since(3).plain_response_header().on_controllers(),
    ApiKey::new(19, "CreateTopics", 0, 7).flexible_since(5).on_controllers(),
    ApiKey::new(20, "DeleteTopics", 0, 6).flexible_since(4).on_controllers(),
    ApiKey::new(21, "DeleteRecords", 0, 2).flexible_since(2),
    ApiKey::new(22, "InitProducerId", 0, 6).flexible_since(2),
    ApiKey::new(23, "OffsetForLeaderEpoch", 0, 4).flexible_since(4),
    ApiKey::new(24, "AddPartitionsToTxn", 0, 5).flexible_since(3),
    ApiKey::new(25, "AddOffsetsToTxn", 0, 4).flexible_since(3),
    ApiKey::new(26, "EndTxn", 0, 5).flexible_since(3),
    ApiKey::new(27, "WriteTxnMarkers", 0, 2).flexible_since(1),
    ApiKey::new(28, "TxnOffsetCommit", 0, 6).flexible_since(3),
    ApiKey::new(29, "DescribeAcls", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(30, "CreateAcls", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(31, "DeleteAcls", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(32, "DescribeConfigs", 0, 4).flexible_since(4).on_controllers(),
    ApiKey::new(33, "AlterConfigs", 0, 2).flexible_since(2).on_controllers(),
    ApiKey::new(34, "AlterReplicaLogDirs", 0, 2).flexible_since(2),
    ApiKey::new(35, "DescribeLogDirs", 0, 5).flexible_since(2),
    ApiKey::new(36, "SaslAuthenticate", 0, 2).flexible_since(2).on_controllers(),
    ApiKey::new(37, "CreatePartitions", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(38, "CreateDelegationToken", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(39, "RenewDelegationToken", 0, 2).flexible_since(2).on_controllers(),
    ApiKey::new(40, "ExpireDelegationToken", 0, 2).flexible_since(2).on_controllers(),
    ApiKey::new(41, "DescribeDelegationToken", 0, 3).flexible_since(2).on_controllers(),
    ApiKey::new(42, "DeleteGroups", 0, 3).flexible_since(2),
    ApiKey::new(43, "ElectLeaders", 0, 2).flexible_since(2).on_controllers(),
    ApiKey::new(44, "IncrementalAlterConfigs", 0, 1).flexible_since(1).on_controllers(),
    ApiKey::new(45, "AlterPartitionReassignments", 0, 1).flexible_since(0).on_controllers(),
    ApiKey::new(46, "ListPartitionReassignments", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(47, "OffsetDelete", 0, 0),
    ApiKey::new(48, "DescribeClientQuotas", 0, 1).flexible_since(1),
    ApiKey::new(49, "AlterClientQuotas", 0, 1).flexible_since(1).on_controllers(),
    ApiKey::new(50, "DescribeUserScramCredentials", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(51, "AlterUserScramCredentials", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(52, "Vote", 0, 2).flexible_since(0).on_controllers(),
    ApiKey::new(53, "BeginQuorumEpoch", 0, 1).flexible_since(1).on_controllers(),
    ApiKey::new(54, "EndQuorumEpoch", 0, 1).flexible_since(1).on_controllers(),
    ApiKey::new(55, "DescribeQuorum", 0, 2).flexible_since(0).on_controllers(),
    ApiKey::new(56, "AlterPartition", 0, 3).flexible_since(0).on_controllers(),
    ApiKey::new(57, "UpdateFeatures", 0, 2).flexible_since(0).on_controllers(),
    ApiKey::new(58, "Envelope", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(59, "FetchSnapshot", 0, 1).flexible_since(0).on_controllers(),
    ApiKey::new(60, "DescribeCluster", 0, 2).flexible_since(0).on_controllers(),
    ApiKey::new(61, "DescribeProducers", 0, 0).flexible_since(0),
    ApiKey::new(62, "BrokerRegistration", 0, 4).flexible_since(0).on_controllers(),
    ApiKey::new(63, "BrokerHeartbeat", 0, 2).flexible_since(0).on_controllers(),
    ApiKey::new(64, "UnregisterBroker", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(65, "DescribeTransactions", 0, 0).flexible_since(0),
    ApiKey::new(66, "ListTransactions", 0, 2).flexible_since(0),
    ApiKey::new(67, "AllocateProducerIds", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(68, "ConsumerGroupHeartbeat", 0, 1).flexible_since(0),
    ApiKey::new(69, "ConsumerGroupDescribe", 0, 1).flexible_since(0),
    ApiKey::new(70, "ControllerRegistration", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(71, "GetTelemetrySubscriptions", 0, 0).flexible_since(0),
    ApiKey::new(72, "PushTelemetry", 0, 0).flexible_since(0),
    ApiKey::new(73, "AssignReplicasToDirs", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(74, "ListConfigResources", 0, 1).flexible_since(0),
    ApiKey::new(75, "DescribeTopicPartitions", 0, 0).flexible_since(0),
    ApiKey::new(76, "ShareGroupHeartbeat", 0, 1).flexible_since(0),
    ApiKey::new(77, "ShareGroupDescribe", 0, 1).flexible_since(0),
    ApiKey::new(78, "ShareFetch", 0, 2).flexible_since(0),
    ApiKey::new(79, "ShareAcknowledge", 0, 2).flexible_since(0),
    ApiKey::new(80, "AddRaftVoter", 0, 1).flexible_since(0).on_controllers(),
    ApiKey::new(81, "RemoveRaftVoter", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(82, "UpdateRaftVoter", 0, 0).flexible_since(0).on_controllers(),
    ApiKey::new(83, "InitializeShareGroupState", 0, 0).flexible_since(0),
    ApiKey::new(84, "ReadShareGroupState", 0, 0).flexible_since(0),
    ApiKey::new(85, "WriteShareGroupState", 0, 1).flexible_since(0),
    ApiKey::new(86, "DeleteShareGroupState", 0, 0).flexible_since(0),
    ApiKey::new(87, "ReadShareGroupStateSummary", 0, 1).flexible_since(0),
    ApiKey::new(88, "StreamsGroupHeartbeat", 0, 1).flexible_since(0),
    ApiKey::new(89, "StreamsGroupDescribe", 0, 1).flexible_since(0),
    ApiKey::new(90, "DescribeShareGroupOffsets", 0, 1).flexible_since(0),
    ApiKey::new(91, "AlterShareGroupOffsets", 0, 0).flexible_since(0),
    ApiKey::new(92, "DeleteShareGroupOffsets", 0, 0).flexible_since(0),
    ApiKey::new(93, "StreamsGroupTopologyDescriptionUpdate", 0, 0).flexible_since(0),
    ApiKey::new(94, "UnregisterController", 0, 0).flexible_since(0).on_controllers(),
];

/// What is known of an API key.
#[inline]
pub const fn api_key(key: i16) -> Option<&'static ApiKey> {
    if 0 <= key && (key as usize) < API_KEYS.len() { Some(&API_KEYS[key as usize]) } else { None }
}

const _: () = {
    let mut key = 0;
    while key < API_KEYS.len() {
        assert!(API_KEYS[key].key as usize == key, "an API key is not in its place");
        key += 1;
    }
};

/// The name of an error code (Kafka's `Errors`, -1 to 136).
pub fn error_code(code: i16) -> Option<&'static str> {
    ERROR_CODES.get(usize::try_from(code.checked_add(1)?).ok()?).copied()
}

/// The error code of this name, at compile time: a name that does not exist fails the build.
pub const fn code(name: &str) -> i64 {
    let mut place = 0;
    while place < ERROR_CODES.len() {
        if super::same(ERROR_CODES[place], name) {
            return place as i64 - 1;
        }
        place += 1;
    }
    panic!("no error code has this name")
}

/// Names of the error codes from -1 on.
static ERROR_CODES: [&str; 138] = [
    "UNKNOWN_SERVER_ERROR",
    "NONE",
    "OFFSET_OUT_OF_RANGE",
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "INVALID_FETCH_SIZE",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "MESSAGE_TOO_LARGE",
    "STALE_CONTROLLER_EPOCH",
    "OFFSET_METADATA_TOO_LARGE",
    "NETWORK_EXCEPTION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "INVALID_TOPIC_EXCEPTION",
    "RECORD_LIST_TOO_LARGE",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "INVALID_REQUIRED_ACKS",
    "ILLEGAL_GENERATION",
    "INCONSISTENT_GROUP_PROTOCOL",
    "INVALID_GROUP_ID",
    "UNKNOWN_MEMBER_ID",
    "INVALID_SESSION_TIMEOUT",
    "REBALANCE_IN_PROGRESS",
    "INVALID_COMMIT_OFFSET_SIZE",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
    "UNSUPPORTED_VERSION",
    "TOPIC_ALREADY_EXISTS",
    "INVALID_PARTITIONS",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_REPLICA_ASSIGNMENT",
    "INVALID_CONFIG",
    "NOT_CONTROLLER",
    "INVALID_REQUEST",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "POLICY_VIOLATION",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TRANSACTION_TIMEOUT",
    "CONCURRENT_TRANSACTIONS",
    "TRANSACTION_COORDINATOR_FENCED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "SECURITY_DISABLED",
    "OPERATION_NOT_ATTEMPTED",
    "KAFKA_STORAGE_ERROR",
    "LOG_DIR_NOT_FOUND",
    "SASL_AUTHENTICATION_FAILED",
    "UNKNOWN_PRODUCER_ID",
    "REASSIGNMENT_IN_PROGRESS",
    "DELEGATION_TOKEN_AUTH_DISABLED",
    "DELEGATION_TOKEN_NOT_FOUND",
    "DELEGATION_TOKEN_OWNER_MISMATCH",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    "DELEGATION_TOKEN_EXPIRED",
    "INVALID_PRINCIPAL_TYPE",
    "NON_EMPTY_GROUP",
    "GROUP_ID_NOT_FOUND",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "LISTENER_NOT_FOUND",
    "TOPIC_DELETION_DISABLED",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "STALE_BROKER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "MEMBER_ID_REQUIRED",
    "PREFERRED_LEADER_NOT_AVAILABLE",
    "GROUP_MAX_SIZE_REACHED",
    "FENCED_INSTANCE_ID",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    "ELECTION_NOT_NEEDED",
    "NO_REASSIGNMENT_IN_PROGRESS",
    "GROUP_SUBSCRIBED_TO_TOPIC",
    "INVALID_RECORD",
    "UNSTABLE_OFFSET_COMMIT",
    "THROTTLING_QUOTA_EXCEEDED",
    "PRODUCER_FENCED",
    "RESOURCE_NOT_FOUND",
    "DUPLICATE_RESOURCE",
    "UNACCEPTABLE_CREDENTIAL",
    "INCONSISTENT_VOTER_SET",
    "INVALID_UPDATE_VERSION",
    "FEATURE_UPDATE_FAILED",
    "PRINCIPAL_DESERIALIZATION_FAILURE",
    "SNAPSHOT_NOT_FOUND",
    "POSITION_OUT_OF_RANGE",
    "UNKNOWN_TOPIC_ID",
    "DUPLICATE_BROKER_REGISTRATION",
    "BROKER_ID_NOT_REGISTERED",
    "INCONSISTENT_TOPIC_ID",
    "INCONSISTENT_CLUSTER_ID",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "FETCH_SESSION_TOPIC_ID_ERROR",
    "INELIGIBLE_REPLICA",
    "NEW_LEADER_ELECTED",
    "OFFSET_MOVED_TO_TIERED_STORAGE",
    "FENCED_MEMBER_EPOCH",
    "UNRELEASED_INSTANCE_ID",
    "UNSUPPORTED_ASSIGNOR",
    "STALE_MEMBER_EPOCH",
    "MISMATCHED_ENDPOINT_TYPE",
    "UNSUPPORTED_ENDPOINT_TYPE",
    "UNKNOWN_CONTROLLER_ID",
    "UNKNOWN_SUBSCRIPTION_ID",
    "TELEMETRY_TOO_LARGE",
    "INVALID_REGISTRATION",
    "TRANSACTION_ABORTABLE",
    "INVALID_RECORD_STATE",
    "SHARE_SESSION_NOT_FOUND",
    "INVALID_SHARE_SESSION_EPOCH",
    "FENCED_STATE_EPOCH",
    "INVALID_VOTER_KEY",
    "DUPLICATE_VOTER",
    "VOTER_NOT_FOUND",
    "INVALID_REGULAR_EXPRESSION",
    "REBOOTSTRAP_REQUIRED",
    "STREAMS_INVALID_TOPOLOGY",
    "STREAMS_INVALID_TOPOLOGY_EPOCH",
    "STREAMS_TOPOLOGY_FENCED",
    "SHARE_SESSION_LIMIT_REACHED",
    "GROUP_DELETION_FAILED",
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
    "CONTROLLER_ID_NOT_REGISTERED",
];

/// Names of the security protocols from 0 on (Kafka's `SecurityProtocol`).
pub static SECURITY_PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// The name that Kafka's `DirectoryId` gives to a reserved directory id.
pub fn reserved_directory(id: [u8; 16]) -> Option<&'static str> {
    match u128::from_be_bytes(id) {
        0 => Some("MIGRATING"),
        1 => Some("UNASSIGNED"),
        2 => Some("LOST"),
        _ => None,
    }
}

/// The release of a metadata.version level (Kafka's `MetadataVersion`).
pub fn metadata_version(level: i64) -> Option<&'static str> {
    METADATA_VERSIONS.get(usize::try_from(level.checked_sub(1)?).ok()?).copied()
}

/// Releases of the metadata.version levels from 1 on.
static METADATA_VERSIONS: [&str; 34] = [
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0",
    "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(Names::ErrorCodes.of(-1), Some("UNKNOWN_SERVER_ERROR"));
        assert_eq!(Names::ErrorCodes.of(101), Some("DUPLICATE_BROKER_REGISTRATION"));
        assert_eq!(Names::ErrorCodes.of(137), None);
        assert_eq!(Names::ErrorCodes.of(-2), None);
        assert_eq!(Names::ErrorCodes.of(i64::MAX), None);
        assert_eq!(Names::ApiKeys.of(62), Some("BrokerRegistration"));
        assert_eq!(Names::SecurityProtocols.of(3), Some("SASL_SSL"));
        assert_eq!(metadata_version(17), Some("3.7-IV2"));
        assert_eq!(metadata_version(i64::MIN), None);
        assert_eq!(Names::ErrorCodes.all().count(), ERROR_CODES.len());
        assert_eq!(Names::ApiKeys.all().count(), API_KEYS.len());
    }
}
