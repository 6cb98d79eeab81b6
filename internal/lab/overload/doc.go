// SPDX-License-Identifier: Apache-2.0

// Package overload finds where each defence stops serving. The victim has a processor of its
// own behind a bounded queue, in which its clients wait with the flood, as at a network card;
// so it can be offered more than it can process.
//
// It must not know how results are plotted (package report).
package overload
