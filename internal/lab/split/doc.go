// SPDX-License-Identifier: Apache-2.0

// Package split runs edges before a server under one attack, and reproduces the figures of
// *SmartCookie*.
//
// It must not know the strategies of a proxy, nor how results are plotted.
package split
