// SPDX-License-Identifier: Apache-2.0

// Package strategies measures every mark of the published tables on the strategies of a SYN
// proxy, and reports where it measures another.
//
// It must not know edges, nor how results are plotted.
package strategies
