/*
 * The C half of the boundary to epan: the entry points that epan calls, the guard around painting, and what the headers
 * hide in macros and inline functions or change between Wireshark versions. No protocol logic.
 *
 * epan reports errors with longjmp. So each entry point here gathers what Rust needs first, lets Rust decode without any
 * epan call, lets it paint inside a guard, and only when Rust has returned raises what was caught or asks for bytes that
 * are missing. No frame of Rust that owns anything is ever jumped over.
 */
#include "shim.h"

#include <epan/conversation.h>
#include <epan/exceptions.h>
#include <epan/proto_data.h>
#include <epan/dissectors/packet-tcp.h>

/* The size prefix. */
#define SIZE_PREFIX 4

int proto_kraft = -1;

/* Preferences. Their type differs between versions, which is why they live here. */
static gboolean desegment = TRUE;
static guint max_message_size = 100 * 1024 * 1024;

/* Keys of what is attached to a frame (file scope) and to one dissection of it (packet scope). */
enum { KEY_FIRST_ID, KEY_NEXT_ORDINAL };

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

/* The number of this PDU among those of its frame; every dissection of a frame meets them in the same order. */
static guint32
next_ordinal(packet_info *pinfo)
{
    guint32 ordinal = GPOINTER_TO_UINT(p_get_proto_data(pinfo->pool, pinfo, proto_kraft, KEY_NEXT_ORDINAL));

    p_set_proto_data(pinfo->pool, pinfo, proto_kraft, KEY_NEXT_ORDINAL, GUINT_TO_POINTER(ordinal + 1));
    return ordinal;
}

static gboolean
source_is_b(packet_info *pinfo)
{
    return pinfo->srcport != pinfo->destport ? pinfo->srcport > pinfo->destport : cmp_address(&pinfo->src, &pinfo->dst) > 0;
}

/* The end whose port the dissector was found by; heuristics leave another number there, which is no port of this packet. */
static gint
server_by_port(packet_info *pinfo, gboolean source_is_b)
{
    if (pinfo->match_uint == pinfo->destport)
        return !source_is_b;
    return pinfo->match_uint == pinfo->srcport ? source_is_b : -1;
}

static int
dissect_pdu(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data _U_)
{
    kraft_pdu pdu = { .tvb = tvb, .pinfo = pinfo, .tree = tree };
    kraft_caught caught;

    if (pinfo->cinfo && col_get_writable(pinfo->cinfo, COL_INFO))
        pdu.columns = pinfo->cinfo;
    pdu.captured_length = tvb_captured_length(tvb);
    pdu.captured = pdu.captured_length ? tvb_get_ptr(tvb, 0, pdu.captured_length) : NULL;
    pdu.length = tvb_reported_length(tvb);
    pdu.frame = pinfo->num;
    pdu.time_ns = (gint64)pinfo->abs_ts.secs * 1000000000 + pinfo->abs_ts.nsecs;
    pdu.connection = connection_of(pinfo);
    pdu.sender_is_b = source_is_b(pinfo);
    pdu.server = server_by_port(pinfo, pdu.sender_is_b);
    pdu.first_pass = !PINFO_FD_VISITED(pinfo);
    pdu.ordinal = next_ordinal(pinfo);
    if (!pdu.first_pass)
        pdu.id = GPOINTER_TO_UINT(p_get_proto_data(wmem_file_scope(), pinfo, proto_kraft, KEY_FIRST_ID));

    kraft_decode(&pdu);

    if (pdu.first_pass && pdu.ordinal == 0)
        p_set_proto_data(wmem_file_scope(), pinfo, proto_kraft, KEY_FIRST_ID, GUINT_TO_POINTER(pdu.id));

    caught = paint_guarded(&pdu);
    if (caught.thrown)
        except_throw(XCEPT_GROUP_WIRESHARK, caught.code, caught.message);
    /* epan itself tells a short snap length, a lost fragment and a malformed packet apart. */
    if (pdu.missing_length > 0)
        tvb_ensure_bytes_exist(tvb, pdu.missing_at, pdu.missing_length);
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

/* A TLS record (RFC 8446, 5.1): content type 20 to 23, major version 3. No size prefix begins so, it would exceed 300 MiB. */
static gboolean
is_tls_record(tvbuff_t *tvb)
{
    guint8 first, second;

    if (tvb_captured_length(tvb) < 2)
        return FALSE;
    first = tvb_get_guint8(tvb, 0);
    second = tvb_get_guint8(tvb, 1);
    return first >= 20 && first <= 23 && second == 3;
}

int
kraft_dissect_tcp(tvbuff_t *tvb, packet_info *pinfo, proto_tree *tree, void *data)
{
    /* Refused, so that TLS takes the connection and hands back what it has decrypted. */
    if (is_tls_record(tvb))
        return 0;
    tcp_dissect_pdus(tvb, pinfo, tree, desegment, SIZE_PREFIX, pdu_length, dissect_pdu, data);
    return tvb_captured_length(tvb);
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
