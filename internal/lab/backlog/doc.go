// SPDX-License-Identifier: Apache-2.0

// Package backlog emulates the listen queue of 4.4BSD, which Lemon's *Resisting SYN flood DoS attacks with a SYN
// cache* measured: a linear list of half-open connections, from which a random one is dropped for
// each SYN that finds it full. A process has the list and answers a flood and clients in place of the kernel, so that what
// the list costs can be seen.
//
// It knows nothing of defences and plots.
package backlog
