// SPDX-License-Identifier: Apache-2.0

// Package netstack tests the proxy with clients that are no kernel's: gVisor's TCP,
// whose options stand in another order and whose timers are its own. It is a module of
// its own so that the main one does not depend on gVisor.
package netstack
