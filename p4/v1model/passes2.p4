/* SPDX-License-Identifier: Apache-2.0
 *
 * passes.p4 with the schedule of Tofino 2.
 */
#define TG_PASSES 2
#include "passes.p4"
