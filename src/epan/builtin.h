/*
 * What Wireshark's own kafka dissector decodes without fault: { API key, first version, last version }.
 *
 * Measured for each version of Wireshark (4.0.17, 4.4.19, 4.6.9) with messages of every version it claims to know, plain,
 * full, null, empty and with tagged fields, from an independent encoder: where it called one of them malformed, what it
 * claims is not listed. A response is listed only where its request is, since it finds out about one from the other.
 * Keys that are decoded here are left out, and SaslAuthenticate, whose tokens are nobody's business.
 */
#ifndef KRAFT_BUILTIN_H
#define KRAFT_BUILTIN_H

#include "shim.h"

typedef struct {
    gint16 key;
    gint16 first;
    gint16 last;
} kraft_known;

#if KRAFT_WIRESHARK < 404
static const kraft_known builtin_knows[] = {
    { 2, 0, 5 }, { 3, 0, 9 }, { 4, 0, 4 }, { 5, 0, 2 }, { 6, 4, 6 }, { 7, 0, 3 }, { 8, 0, 8 },
    { 9, 0, 7 }, { 10, 0, 3 }, { 11, 6, 7 }, { 12, 0, 4 }, { 13, 0, 4 }, { 14, 4, 5 }, { 15, 5, 5 }, { 16, 0, 3 },
    { 17, 0, 1 }, { 20, 0, 0 }, { 20, 3, 4 }, { 21, 0, 1 }, { 22, 0, 3 }, { 23, 0, 3 }, { 24, 0, 1 }, { 25, 0, 1 },
    { 26, 0, 1 }, { 28, 0, 3 }, { 29, 0, 2 }, { 30, 0, 2 }, { 31, 2, 2 }, { 32, 0, 2 }, { 33, 0, 1 }, { 34, 0, 1 },
    { 35, 0, 1 }, { 38, 2, 2 }, { 39, 2, 2 }, { 40, 2, 2 }, { 41, 2, 2 }, { 42, 0, 2 }, { 44, 0, 1 }, { 47, 0, 0 },
};
static const kraft_known builtin_knows_requests[] = {
    { 1, 0, 11 }, { 15, 0, 4 }, { 20, 1, 2 }, { 27, 0, 0 }, { 31, 0, 1 }, { 38, 0, 1 }, { 41, 0, 1 },
};
#elif KRAFT_WIRESHARK < 406
static const kraft_known builtin_knows[] = {
    { 0, 9, 11 }, { 1, 12, 16 }, { 2, 0, 8 }, { 3, 0, 11 }, { 4, 0, 7 }, { 5, 0, 2 }, { 6, 4, 8 }, { 7, 0, 3 },
    { 8, 0, 8 }, { 9, 0, 9 }, { 10, 1, 5 }, { 11, 0, 9 }, { 12, 0, 4 }, { 13, 0, 5 }, { 14, 0, 5 }, { 15, 0, 5 },
    { 16, 0, 3 }, { 17, 0, 1 }, { 20, 0, 0 }, { 20, 3, 5 }, { 21, 0, 1 }, { 22, 0, 5 }, { 23, 0, 3 }, { 24, 0, 1 },
    { 25, 0, 1 }, { 26, 0, 1 }, { 28, 0, 3 }, { 29, 0, 2 }, { 30, 0, 2 }, { 31, 2, 2 }, { 32, 0, 3 }, { 33, 0, 1 },
    { 34, 0, 1 }, { 35, 0, 1 }, { 38, 0, 2 }, { 39, 0, 2 }, { 40, 0, 2 }, { 41, 0, 2 }, { 42, 0, 2 }, { 44, 0, 1 },
    { 47, 0, 0 }, { 60, 0, 1 }, { 67, 0, 0 },
};
static const kraft_known builtin_knows_requests[] = {
    { 1, 0, 11 }, { 3, 12, 12 }, { 20, 1, 2 }, { 27, 0, 0 }, { 31, 0, 1 }, { 32, 4, 4 }, { 46, 0, 0 },
};
#else
static const kraft_known builtin_knows[] = {
    { 0, 9, 12 }, { 1, 12, 17 }, { 2, 0, 9 }, { 3, 0, 11 }, { 4, 0, 7 }, { 5, 0, 2 }, { 6, 4, 8 }, { 7, 0, 3 },
    { 8, 0, 9 }, { 9, 0, 9 }, { 10, 1, 5 }, { 11, 0, 9 }, { 12, 0, 4 }, { 13, 0, 5 }, { 14, 0, 5 }, { 15, 0, 5 },
    { 16, 0, 3 }, { 17, 0, 1 }, { 20, 0, 5 }, { 21, 0, 1 }, { 22, 0, 5 }, { 23, 0, 3 }, { 24, 0, 2 }, { 25, 0, 2 },
    { 26, 0, 2 }, { 28, 0, 5 }, { 29, 0, 2 }, { 30, 0, 2 }, { 31, 2, 2 }, { 32, 0, 3 }, { 33, 0, 1 }, { 34, 0, 1 },
    { 35, 0, 1 }, { 38, 0, 2 }, { 39, 0, 2 }, { 40, 0, 2 }, { 41, 0, 2 }, { 42, 0, 2 }, { 44, 0, 1 }, { 47, 0, 0 },
    { 60, 0, 1 }, { 67, 0, 0 },
};
static const kraft_known builtin_knows_requests[] = {
    { 1, 0, 11 }, { 3, 12, 12 }, { 15, 6, 6 }, { 27, 0, 0 }, { 31, 0, 1 }, { 32, 4, 4 }, { 46, 0, 0 },
};
#endif

static gboolean
is_among(const kraft_known *known, gsize count, gint16 key, gint16 version)
{
    gsize i;

    for (i = 0; i < count; i++) {
        if (known[i].key == key && known[i].first <= version && version <= known[i].last)
            return TRUE;
    }
    return FALSE;
}

static gboolean
kraft_builtin_decodes(gint16 key, gint16 version, gboolean is_request)
{
    return is_among(builtin_knows, G_N_ELEMENTS(builtin_knows), key, version)
        || (is_request && is_among(builtin_knows_requests, G_N_ELEMENTS(builtin_knows_requests), key, version));
}

#endif
