// SPDX-License-Identifier: Apache-2.0

// Package strategies measures every mark of the tables in which the strategies of a SYN
// proxy were published, and says where it finds another.
//
// It must not know edges, nor how results are drawn.
package strategies
