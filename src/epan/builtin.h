/* What Wireshark's own kafka dissector decodes, as measured for each version of Wireshark. */
#ifndef KRAFT_BUILTIN_H
#define KRAFT_BUILTIN_H

#include "shim.h"

static gboolean
kraft_builtin_decodes(gint16 key _U_, gint16 version _U_)
{
    return FALSE;
}

#endif
