/*
 * The C half of the boundary to epan: the entry points that epan calls, the guard around painting, and what the headers
 * hide in macros and inline functions or change between Wireshark versions. No protocol logic.
 *
 * epan reports errors with longjmp. So each entry point here gathers what Rust needs first, lets Rust decode without any
 * epan call, lets it paint inside a guard, and only when Rust has returned raises what was caught, hands over to another
 * dissector, or asks for bytes that are missing. No frame of Rust that owns anything is ever jumped over.
 */
#include "shim.h"
#include "builtin.h"

#include <epan/column-info.h>
#include <epan/conversation.h>
#include <epan/exceptions.h>
#include <epan/expert.h>
#include <epan/proto_data.h>
#include <epan/tap.h>
#include <epan/dissectors/packet-tcp.h>
#include <epan/dissectors/packet-tls.h>

/* Bytes of the size prefix. */
#define SIZE_PREFIX 4

/*
 * What differs between versions of Wireshark. No function is called that one of them lacks: a plugin of the wrong version
 * would then be refused for a missing symbol, and not with the sentence that tells its version.
 */
#if KRAFT_WIRESHARK >= 404
typedef bool kraft_bool;
#else
typedef gboolean kraft_bool;
#endif

int proto_kraft = -1;
static dissector_handle_t kraft_handle;
static dissector_handle_t kafka_handle;
static int kraft_tap;

/* Preferences. Their type differs between versions, which is why they live here. */
static kraft_bool desegment = TRUE;
static kraft_bool hand_over = TRUE;
static guint max_message_size = 100 * 1024 * 1024;
static guint session_timeout_ms = 9000;

/*
 * One dissection of a frame. Every dissection of a frame meets its PDUs in the same order, so the number of the frame's first
 * PDU and a PDU's place tell it from all others. Lives as long as the packet.
 */
typedef struct kraft_visit {
    guint32 first_id;     /* on later passes: + 1; 0 if it is not known */
    guint32 next_ordinal; /* of the PDU that comes next */
} kraft_visit;

typedef struct {
    gboolean thrown;
    unsigned long code;
    const char *message;
} kraft_caught;

/* Paints inside a guard. The exception comes back as a value. */
static kraft_caught
paint_guarded(kraft_pdu *pdu)
{
    volatile kraft_caught caught = { FALSE, 0, NULL };

    TRY {
        kraft_paint(pdu);
    }
    CATCH_ALL {
        caught.thrown = TRUE;
        caught.code = EXCEPT_CODE;
        /* The text dies with the handler; what is thrown later needs it as long as the packet. */
        caught.message = GET_MESSAGE ? wmem_strdup(pdu->pinfo->pool, GET_MESSAGE) : NULL;
    }
    ENDTRY;
    return caught;
}

static guint32
connection_of(packet_info *pinfo)
{
    conversation_t *conversation = find_or_create_conversation(pinfo);
    guint32 connection = GPOINTER_TO_UINT(conversation_get_proto_data(conversation, proto_kraft));

    if (connection == 0) {
        connection = kraft_connect();
        conversation_add_proto_data(conversation, proto_kraft, GUINT_TO_POINTER(connection));
    }
    return connection;
}

static gboolean
source_is_b(packet_info *pinfo)
{
    return pinfo->srcport != pinfo->destport ? pinfo->srcport > pinfo->destport : cmp_address(&pinfo->src, &pinfo->dst) > 0;
}

/* 127.0.0.0/8 (RFC 1122) and ::1 (RFC 4291). */
static gboolean
is_loopback(const address *addr)
{
    static const guint8 ip6_loopback[16] = { [15] = 1 };

    if (addr->type == AT_IPv4)
        return addr->len == 4 && *(const guint8 *)addr->data == 127;
    return addr->type == AT_IPv6 && addr->len == 16 && memcmp(addr->data, ip6_loopback, 16) == 0;
}

/* The end whose port the dissector was found by; heuristics leave another number there, which is no port of this packet. */
static gint
server_by_port(packet_info *pinfo, gboolean source_is_b)
{
    if (pinfo->match_uint == pinfo->destport)
        return !source_is_b;
    return pinfo->match_uint == pinfo->srcport ? source_is_b : -1;
}

static hf_ref_type
reference_to(int protocol)
{
    return proto_registrar_get_nth(protocol)->ref_type;
}

/*
 * Whether somebody listens to expert items, or asks for what is common to all of them. epan registers their tap and their
 * protocol only after all dissectors.
 */
static gboolean
experts_are_heard(void)
{
    static int expert_tap = 0, proto_experts = -1;

    if (proto_experts < 0) {
        expert_tap = find_tap_id("expert");
        proto_experts = proto_get_id_by_filter_name("_ws.expert");
    }
    return have_tap_listener(expert_tap) || (proto_experts >= 0 && reference_to(proto_experts) != HF_REF_TYPE_NONE);
}

static kraft_visit *
visit_of(packet_info *pinfo)
{
    kraft_visit *visit = (kraft_visit *)p_get_proto_data(pinfo->pool, pinfo, proto_kraft, 0);

    if (visit)
        return visit;
    visit = wmem_new0(pinfo->pool, kraft_visit);
    if (PINFO_FD_VISITED(pinfo))
        visit->first_id = kraft_first_of_frame(pinfo->num);
    else
        kraft_frame_begins();
    p_add_proto_data(pinfo->pool, pinfo, proto_kraft, 0, visit);
    return visit;
}

/* Who looks at what is found: nothing is painted, and no text is written, that nobody looks at. */
static void
note_audience(kraft_pdu *pdu)
{
    packet_info *pinfo = pdu->pinfo;
    proto_tree *tree = pdu->tree;

    if (pinfo->cinfo && col_get_writable(pinfo->cinfo, COL_INFO))
        pdu->columns = pinfo->cinfo;
    pdu->is_wanted = proto_field_is_referenced(tree, proto_kraft);
    pdu->is_visible = tree && PTREE_DATA(tree)->visible;
    /* Only what is asked for by name, not for the sake of a field below it. */
    pdu->is_labelled = pdu->is_visible
        || (pdu->is_wanted && reference_to(proto_kraft) > HF_REF_TYPE_INDIRECT);
    pdu->experts_heard = pdu->is_visible || experts_are_heard();
    /* Wireshark's window shows the worst severity of the file, a column the worst of each packet. */
    pdu->severity = pinfo->cinfo && pinfo->cinfo->col_first[COL_EXPERT] >= 0 ? 0 : expert_get_highest_severity();
}

/* What Rust needs to know of all PDUs in a segment. */
static kraft_pdu
pdu_of_segment(packet_info *pinfo, proto_tree *tree)
{
    kraft_pdu pdu = { .pinfo = pinfo, .tree = tree };

    note_audience(&pdu);
    pdu.frame = pinfo->num;
    pdu.time_ns = (gint64)pinfo->abs_ts.secs * 1000000000 + pinfo->abs_ts.nsecs;
    pdu.connection = connection_of(pinfo);
    pdu.sender_is_b = source_is_b(pinfo);
    pdu.server = server_by_port(pinfo, pdu.sender_is_b);
    pdu.source = add_address_to_hash(0, &pinfo->src);
    pdu.destination = add_address_to_hash(0, &pinfo->dst);
    pdu.is_local = is_loopback(&pinfo->src) && is_loopback(&pinfo->dst);
    pdu.session_timeout_ms = session_timeout_ms;
    pdu.first_pass = !PINFO_FD_VISITED(pinfo);
    return pdu;
}

/* The next PDU of its frame. */
static void
take_next(kraft_pdu *pdu, tvbuff_t *tvb)
{
    pdu->tvb = tvb;
    pdu->captured_length = tvb_captured_length(tvb);
    pdu->captured = pdu->captured_length ? tvb_get_ptr(tvb, 0, pdu->captured_length) : NULL;
    pdu->length = tvb_reported_length(tvb);
    pdu->ordinal = pdu->visit->next_ordinal++;
}

/* Whether Wireshark's own kafka dissector shows the body. */
static gboolean
takes_over(const kraft_pdu *pdu)
{
    return hand_over && kafka_handle && pdu->undecoded && pdu->captured_length == pdu->length
        && kraft_builtin_decodes(pdu->api_key, pdu->api_version, pdu->is_request)
        && proto_is_protocol_enabled(find_protocol_by_id(dissector_handle_get_protocol_index(kafka_handle)));
}

/*
 * Lets Wireshark's own kafka dissector show the PDU below our item. It tells the direction by the port it was found by. The
 * columns stay ours.
 */
static void
call_builtin(kraft_pdu *pdu)
{
    packet_info *pinfo = pdu->pinfo;
    const guint32 match_uint = pinfo->match_uint;

    pinfo->match_uint = pdu->is_request ? pinfo->destport : pinfo->srcport;
    col_set_writable(pinfo->cinfo, -1, FALSE);
    TRY {
        call_dissector(kafka_handle, pdu->tvb, pinfo, pdu->tree);
    }
    FINALLY {
        pinfo->match_uint = match_uint;
        col_set_writable(pinfo->cinfo, -1, TRUE);
    }
    ENDTRY;
}

/* Hands what the PDU counts as to the statistics, if somebody looks at them. */
static void
tally(const kraft_pdu *pdu)
{
    kraft_tally *tally;

    if (!have_tap_listener(kraft_tap))
        return;
    tally = wmem_new(pdu->pinfo->pool, kraft_tally);
    if (kraft_tally_pdu(pdu, tally))
        tap_queue_packet(kraft_tap, pdu->pinfo, tally);
}

static void
show(kraft_pdu *pdu)
{
    kraft_caught caught;

    kraft_decode(pdu);
    /* Before painting, which may throw: what counts is that the PDU is there. */
    tally(pdu);
    pdu->handed_over = takes_over(pdu);
    caught = paint_guarded(pdu);
    if (caught.thrown)
        except_throw(XCEPT_GROUP_WIRESHARK, caught.code, caught.message);
    if (pdu->handed_over)
        call_builtin(pdu);
    /* epan itself tells a short snap length, a lost fragment and a malformed packet apart. */
    if (pdu->missing_length > 0)
        tvb_ensure_bytes_exist(pdu->tvb, pdu->missing_at, pdu->missing_length);
}

static int
dissect_pdu(tvbuff_t *tvb, packet_info *pinfo _U_, proto_tree *tree _U_, void *data)
{
    kraft_pdu pdu = *(const kraft_pdu *)data;

    take_next(&pdu, tvb);
    show(&pdu);
    return pdu.captured_length;
}

/*
 * The length of the PDU at offset. An implausible size is never waited for: what is left of the segment then counts as one
 * PDU, which shows the size and says that it cannot be right.
 */
static guint
pdu_length(packet_info *pinfo _U_, tvbuff_t *tvb, int offset, void *data _U_)
{
    guint32 size = tvb_get_ntohl(tvb, offset);

    return size <= max_message_size ? SIZE_PREFIX + size : (guint)tvb_reported_length_remaining(tvb, offset);
}

static kraft_segment
segment_of(tvbuff_t *tvb, const struct tcpinfo *tcp)
{
    kraft_segment segment = { .max_size = max_message_size };

    segment.captured_length = tvb_captured_length(tvb);
    segment.captured = segment.captured_length ? tvb_get_ptr(tvb, 0, segment.captured_length) : NULL;
    segment.length = tvb_reported_length(tvb);
    if (tcp) {
        segment.has_sequence = TRUE;
        segment.sequence = tcp->seq;
        segment.next_sequence = tcp->nxtseq;
    }
    return segment;
}

/* Dissects the PDUs of a segment; tcp is NULL inside TLS. */
static int
dissect_segment(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, const struct tcpinfo *tcp)
{
    kraft_pdu pdu = pdu_of_segment(pinfo, tree);
    kraft_segment segment = segment_of(tvb, tcp);

    pdu.visit = visit_of(pinfo);
    pdu.first_id = pdu.visit->first_id;
    pdu.ordinal = pdu.visit->next_ordinal;
    if (kraft_begins_pdu(&pdu, &segment)) {
        tcp_dissect_pdus(tvb, pinfo, tree, desegment, SIZE_PREFIX, pdu_length, dissect_pdu, &pdu);
    } else {
        take_next(&pdu, tvb);
        pdu.stray = TRUE;
        show(&pdu);
    }
    return segment.captured_length;
}

/* A TLS record (RFC 8446, 5.1): content type 20 to 23, major version 3. No size prefix begins so, it would exceed 300 MiB. */
static gboolean
is_tls_record(tvbuff_t *tvb)
{
    guint8 head[2];

    if (tvb_captured_length(tvb) < sizeof head)
        return FALSE;
    tvb_memcpy(tvb, head, 0, sizeof head);
    return head[0] >= 20 && head[0] <= 23 && head[1] == 3;
}

/* By port, by Decode As, and for all that follows on a connection that the heuristic has claimed. */
static int
dissect_tcp(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    /* Refused, so that TLS takes the connection and hands back what it has decrypted. */
    if (is_tls_record(tvb))
        return 0;
    return dissect_segment(tvb, pinfo, tree, (const struct tcpinfo *)data);
}

static int
dissect_tls(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data _U_)
{
    return dissect_segment(tvb, pinfo, tree, NULL);
}

/* Whether a connection that begins with this segment is Kafka's. If so, whoever sent it is the client. */
static gboolean
opens_connection(tvbuff_t *tvb, packet_info *pinfo)
{
    kraft_segment segment = segment_of(tvb, NULL);
    kraft_pdu opening;

    if (!kraft_opens_connection(&segment))
        return FALSE;
    opening = pdu_of_segment(pinfo, NULL);
    kraft_client_speaks(&opening);
    return TRUE;
}

static kraft_bool
heuristic_tcp(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    if (!opens_connection(tvb, pinfo))
        return FALSE;
    conversation_set_dissector(find_or_create_conversation(pinfo), kraft_handle);
    dissect_tcp(tvb, pinfo, tree, data);
    return TRUE;
}

static dissector_handle_t kraft_tls_handle;

/* Inside TLS it is not the conversation that remembers the dissector, but the TLS session. */
static kraft_bool
heuristic_tls(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    if (!opens_connection(tvb, pinfo))
        return FALSE;
#if KRAFT_WIRESHARK >= 404
    *((struct tlsinfo *)data)->app_handle = kraft_tls_handle;
#else
    *(dissector_handle_t *)data = kraft_tls_handle;
#endif
    dissect_tls(tvb, pinfo, tree, data);
    return TRUE;
}

/*
 * Ports that others own, but that brokers connect from or controllers may listen on: Kafka's own 9092 and Linux's ephemeral
 * range. The port table runs before all heuristics, so whoever owns such a port would take the connection unseen. A gate
 * stands before each owner: what opens with a request to a controller is ours, all else goes on to the owner as ever.
 */
#define KAFKA_PORT 9092
#define FIRST_EPHEMERAL_PORT 32768
#define LAST_EPHEMERAL_PORT 60999

static GHashTable *owners;

/* What Decode As calls the gate; in the list of protocols it is a part of ours. */
static int proto_gate = -1;

void
kraft_register_gate(void)
{
    proto_gate = proto_register_protocol_in_name_only("KRaft, by content", "KRaft by content", "kraft.by_content", proto_kraft,
        FT_PROTOCOL);
}

/* The gate is a heuristic that comes earlier, so what switches the heuristic off keeps it shut. */
static gboolean
heuristic_is_on(void)
{
    const heur_dtbl_entry_t *heuristic = find_heur_dissector_by_unique_short_name("kraft_tcp");

    return heuristic && heuristic->enabled && proto_is_protocol_enabled(find_protocol_by_id(proto_kraft));
}

static int
dissect_gate(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    dissector_handle_t owner = (dissector_handle_t)g_hash_table_lookup(owners, GUINT_TO_POINTER(pinfo->match_uint));
    /* A request to the owner's own port is the owner's, if the owner is Kafka. */
    gboolean is_owners = owner == kafka_handle && pinfo->match_uint == pinfo->destport;

    /* epan lets only the dissector right above TCP ask for more bytes; that is whom we call, not the gate. */
    pinfo->can_desegment = pinfo->saved_can_desegment;

    if (!is_owners && !is_tls_record(tvb) && heuristic_is_on() && opens_connection(tvb, pinfo)) {
        conversation_set_dissector(find_or_create_conversation(pinfo), kraft_handle);
        return call_dissector_only(kraft_handle, tvb, pinfo, tree, data);
    }
    return owner ? call_dissector_only(owner, tvb, pinfo, tree, data) : 0;
}

static void
note_owner(const gchar *table _U_, ftenum_t selector _U_, gpointer key, gpointer value, gpointer user_data _U_)
{
    guint port = GPOINTER_TO_UINT(key);
    dissector_handle_t owner = dtbl_entry_get_initial_handle((dtbl_entry_t *)value);

    if (owner && (port == KAFKA_PORT || (port >= FIRST_EPHEMERAL_PORT && port <= LAST_EPHEMERAL_PORT)))
        g_hash_table_insert(owners, key, owner);
}

static void
put_gate(gpointer port, gpointer owner _U_, gpointer gate)
{
    dissector_add_uint("tcp.port", GPOINTER_TO_UINT(port), (dissector_handle_t)gate);
}

static void
register_gates(void)
{
    owners = g_hash_table_new(g_direct_hash, g_direct_equal);
    dissector_table_foreach("tcp.port", note_owner, NULL);
    g_hash_table_foreach(owners, put_gate, create_dissector_handle(dissect_gate, proto_gate));
}

void
kraft_register_dissectors(void)
{
    /*
     * Controllers listen on 9093 by custom. The port table runs before all heuristics, and other protocols own some of the
     * ephemeral ports that brokers connect from. This gives the preferences kraft.tcp.port and kraft.tls.port, too.
     */
    kraft_handle = register_dissector("kraft", dissect_tcp, proto_kraft);
    kraft_tls_handle = register_dissector_with_description("kraft_tls", "KRaft over TLS", dissect_tls, proto_kraft);
    dissector_add_uint_range_with_preference("tcp.port", "9093", kraft_handle);
    dissector_add_uint_range_with_preference("tls.port", "9093", kraft_tls_handle);
    heur_dissector_add("tcp", heuristic_tcp, "KRaft over TCP", "kraft_tcp", proto_kraft, HEURISTIC_ENABLE);
    heur_dissector_add("tls", heuristic_tls, "KRaft over TLS", "kraft_tls", proto_kraft, HEURISTIC_ENABLE);
    kafka_handle = find_dissector_add_dependency("kafka", proto_kraft);
    register_gates();
}

void
kraft_register_preferences(module_t *module)
{
    prefs_register_bool_preference(module, "desegment", "Reassemble KRaft messages spanning multiple TCP segments",
        "Whether the KRaft dissector should reassemble messages that span several TCP segments. The TCP preference "
        "\"Allow subdissectors to reassemble TCP streams\" must be on as well.",
        &desegment);
    prefs_register_uint_preference(module, "max_message_size", "Maximum message size",
        "The largest size prefix, in bytes, that is taken for a message. A larger or negative one means that framing is lost; "
        "it is never waited for. The default is that of Kafka's socket.request.max.bytes (104857600).",
        10, &max_message_size);
    prefs_register_bool_preference(module, "hand_over", "Hand other messages to Wireshark's own Kafka dissector",
        "Whether messages that this dissector has no schema for, but Wireshark's own Kafka dissector decodes, are handed to "
        "it. Their frame and header are shown here in any case.",
        &hand_over);
    prefs_register_uint_preference(module, "session_timeout", "Session time-out of brokers (ms)",
        "How long a broker may be silent before the controller fences it: broker.session.timeout.ms of the controllers, 9000 "
        "by default. A longer gap between two heartbeats is worth a warning.",
        10, &session_timeout_ms);
}

void
kraft_register_plugin(void)
{
    static const proto_plugin plugin = { kraft_register_protocol, kraft_register_handoff };

    register_init_routine(kraft_file_opened);
    register_cleanup_routine(kraft_file_closed);
    proto_register_plugin(&plugin);
}

void
kraft_set_generated(proto_item *item)
{
    proto_item_set_generated(item);
}

void
kraft_register_tap(void)
{
    kraft_tap = register_tap("kraft");
    register_srt_table(proto_kraft, NULL, 1, kraft_srt_packet, kraft_srt_init, NULL);
}

void
kraft_register_statistics(void)
{
    stats_tree_register_plugin("kraft", "kraft", "Kafka KRaft", TL_REQUIRES_NOTHING, kraft_tree_packet, kraft_tree_init,
        kraft_tree_cleanup);
}

/*
 * Finds or adds a row, and does with its number what mode says. Gives the id of the row, under which others can be added. All
 * rows can have some below them: one that cannot would be looked for by its name among all rows of the tree.
 */
int
kraft_tree_row(stats_tree *tree, const char *name, int parent, manip_node_mode mode, gint value)
{
    return stats_tree_manip_node_int(mode, tree, name, parent, TRUE, value);
}
