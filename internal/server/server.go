// Package server is the server role: this machine's kernel takes over the connections
// that edges before it have verified. It is the host role without its answers to
// SYNs, which the edges give: see internal/host, which has all that both share.
package server

import (
	"context"

	"tidegate/internal/host"
)

// Run takes connections over until ctx ends, then drains and takes everything off.
// When force is done, the drain is cut short.
func Run(ctx, force context.Context, opt host.Options) error { return host.Run(ctx, force, opt) }
