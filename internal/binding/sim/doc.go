// SPDX-License-Identifier: Apache-2.0

// Package sim runs the real flood engine and the real store of many managers in
// one process, over a virtual network in virtual time, honest and hostile.
//
// What is not real: links (delay, rate, order kept, nothing lost, as TCP would),
// processors (a fixed time for each signature and each message) and TLS (who is
// who is given). What managers share to fit into one memory: the bytes of
// records, which never change, and what decoding and checking the signature of
// the same bytes gave the first time; each manager is charged the time of a
// check all the same. Look-up tables are left out. Nothing else is shared.
package sim
