// SPDX-License-Identifier: Apache-2.0

// Package split runs edges before a server under one attack, and makes the figures of
// *SmartCookie* again.
//
// It must not know the strategies of a proxy, nor how results are drawn.
package split
