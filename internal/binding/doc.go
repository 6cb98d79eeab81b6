// SPDX-License-Identifier: Apache-2.0

// Package binding handles the signed record of who may speak for which
// prefixes: border managers, filter managers and the authorities between them
// and the configured anchors. It reads, checks, signs and writes records
// (docs/bindings.md has the format). It must not know which other records
// exist: chains, revocation and replacement are internal/binding/store's.
package binding
