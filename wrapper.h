/* What bindgen reads: the part of epan's API that src/epan uses, and the contract with the C shim. */
#include <wireshark.h>
#include <ws_version.h>
#include <epan/packet.h>
#include <epan/expert.h>
#include <epan/prefs.h>
#include <epan/proto.h>
#include <epan/tap.h>
#include "src/epan/shim.h"
