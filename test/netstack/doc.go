// SPDX-License-Identifier: Apache-2.0

// Package netstack tests the proxy with clients outside any kernel: gVisor's TCP,
// with another order of options and its own timers. It is a module of
// its own so that the main one does not depend on gVisor.
package netstack
