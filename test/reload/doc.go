// SPDX-License-Identifier: Apache-2.0

// Package reloadtest holds each role to one rule: what a reload brings into force is what a start with the same file
// installs.
package reloadtest
