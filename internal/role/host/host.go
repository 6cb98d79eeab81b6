// SPDX-License-Identifier: Apache-2.0

// Package host is the host role: it protects this machine's own services.
// SYNs are answered with cookies, and the kernel adopts the connections: all of it is
// internal/adopt, which the server role shares.
package host

import (
	"context"

	"tidegate/internal/adopt"
	"tidegate/internal/instance"
)

// Run protects the services of the configuration until ctx ends; see instance.End. When
// force is done, a drain is cut short.
func Run(ctx, force context.Context, opt instance.Options) error {
	return adopt.Run(ctx, force, opt)
}
