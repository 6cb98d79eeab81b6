// SPDX-License-Identifier: Apache-2.0

// Package server is the server role: this machine's kernel takes over the connections
// that the edges before it have verified. It is internal/adopt without answers to
// SYNs, which the edges send. Where a kernel cannot adopt, it translates (translate.go); auto.go chooses for each listener.
package server

import (
	"context"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// Run takes connections over until ctx ends; see instance.End. When force is done, a drain is
// cut short.
func Run(ctx, force context.Context, opt instance.Options) error {
	cfg, err := opt.First()
	if err != nil {
		return err
	}
	if cfg.Server.Takeover != config.TakeoverAdopt {
		return runTranslate(ctx, force, cfg, opt)
	}
	return adopt.Run(ctx, force, opt)
}
