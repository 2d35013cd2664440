/* The contract between the C shim and the Rust half of src/epan: one struct a PDU, and the functions each side calls. */
#ifndef KRAFT_SHIM_H
#define KRAFT_SHIM_H

#include <wireshark.h>
#include <ws_version.h>
#include <epan/packet.h>
#include <epan/prefs.h>
#include <epan/srt_table.h>
#include <epan/stats_tree.h>
#include <epan/tap.h>

/* The version of Wireshark that this is built for: 404 is 4.4. */
#define KRAFT_WIRESHARK (WIRESHARK_VERSION_MAJOR * 100 + WIRESHARK_VERSION_MINOR)

/* One PDU on its way through Rust. */
typedef struct {
    tvbuff_t *tvb;
    packet_info *pinfo;
    proto_tree *tree;
    gboolean is_wanted;     /* somebody looks at our part of the tree */
    gboolean is_visible;    /* somebody looks at all of the tree, texts included */
    gboolean is_labelled;   /* somebody looks at the text of the protocol's item */
    gboolean experts_heard; /* somebody listens to expert items, also without a tree */
    gint severity;          /* nobody needs to know of expert items up to this severity, unless they are heard */
    column_info *columns;   /* NULL if nobody wants the text of the Info column */

    struct kraft_visit *visit; /* of the shim's own: the dissection of the frame */
    const guint8 *captured; /* its captured bytes, from the size prefix on; NULL if there are none */
    guint32 captured_length;
    guint32 length;         /* its bytes on the wire */
    guint32 frame;
    gint64 time_ns;         /* of the frame, since the epoch */
    guint32 connection;     /* what kraft_connect() gave */
    gboolean sender_is_b;   /* ends are told apart by port, then address: A is the lower one */
    gint server;            /* the end that is the server by its port: 0 is A, 1 is B, -1 unknown */
    guint32 source;         /* hashes of the addresses, to tell them apart */
    guint32 destination;
    gboolean is_local;      /* both ends have loopback addresses */
    guint32 session_timeout_ms; /* of the preference */
    gboolean first_pass;
    guint32 ordinal;        /* of the PDU in its frame, from 0 */
    guint32 first_id;       /* on later passes: of the frame's first PDU, + 1; 0 if that is not known */
    gboolean stray;         /* the bytes belong to nobody knows which message: kraft_begins_pdu() said so */
    gboolean handed_over;   /* another dissector shows the body */

    gboolean undecoded;     /* out: the header was read, the body has no schema here */
    gboolean is_request;    /* out */
    gint16 api_key;         /* out, if undecoded */
    gint16 api_version;     /* out, if undecoded */
    guint32 missing_at;     /* out: where bytes are needed that were not captured */
    guint32 missing_length; /* out: how many; 0 if none are missing */
} kraft_pdu;

/* Bytes that TCP or TLS hands over, as a rule those of one segment. */
typedef struct {
    const guint8 *captured;
    guint32 captured_length;
    guint32 length;
    gboolean has_sequence;  /* whether the next two are known: they are of TCP, and TLS has none */
    guint32 sequence;
    guint32 next_sequence;
    guint32 max_size;       /* the largest plausible size prefix */
} kraft_segment;

/* Room for what a PDU counts as: a Tally of Rust's, which lives as long as its packet. */
typedef struct {
    guint64 tally[16];
} kraft_tally;

/*
 * Rust, called by C. None of them calls epan but kraft_paint, which runs inside the guard, and those of the statistics, which
 * run outside of it and call what counts: that does not throw.
 */
guint32 kraft_connect(void);
void kraft_frame_begins(void);
guint32 kraft_first_of_frame(guint32 frame);
gboolean kraft_opens_connection(const kraft_segment *segment);
void kraft_client_speaks(const kraft_pdu *next);
gboolean kraft_begins_pdu(const kraft_pdu *next, const kraft_segment *segment);
void kraft_decode(kraft_pdu *pdu);
void kraft_paint(kraft_pdu *pdu);
void kraft_register_protocol(void);
void kraft_register_handoff(void);
void kraft_file_opened(void);
void kraft_file_closed(void);
gboolean kraft_tally_pdu(const kraft_pdu *pdu, kraft_tally *tally);
void kraft_tree_init(stats_tree *tree);
tap_packet_status kraft_tree_packet(stats_tree *tree, packet_info *pinfo, epan_dissect_t *edt, const void *tally,
    tap_flags_t flags);
void kraft_tree_cleanup(stats_tree *tree);
void kraft_srt_init(struct register_srt *srt, GArray *tables);
tap_packet_status kraft_srt_packet(void *data, packet_info *pinfo, epan_dissect_t *edt, const void *tally, tap_flags_t flags);

/* C, called by Rust. */
extern int proto_kraft;
void kraft_register_gate(void);
void kraft_register_dissectors(void);
void kraft_register_preferences(module_t *module);
void kraft_register_plugin(void);
void kraft_set_generated(proto_item *item);
void kraft_register_tap(void);
void kraft_register_statistics(void);
int kraft_tree_row(stats_tree *tree, const char *name, int parent, manip_node_mode mode, gint value);

#endif
