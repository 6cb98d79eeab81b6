// SPDX-License-Identifier: Apache-2.0

// Package verdicts sends the same odd frames to a machine with a gate and to one without,
// both with real kernels and a real listener, and compares the treatment of each frame:
//
//   - where the bare machine is silent, the gated one must not answer;
//   - a SYN must not reach the server's TCP past the gate, except for one in 30 seconds by which an edge asks whether its port is closed,
//     and those that a host counts as pass_neighbour;
//   - both answer to the same MAC address;
//   - an ACK whose frame the bare machine refuses must not become a connection;
//   - a frame that the gate refuses although the bare machine accepts it must be refused on purpose.
//
// Exceptions are listed, each with its reason (exceptions.go). TIDEGATE_FRAMES and
// TIDEGATE_SEED make the run longer (make fuzz); a failure prints both and the frame.
package verdicts
