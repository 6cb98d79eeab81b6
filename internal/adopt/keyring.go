// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// setClock sets what the packet path adds to its monotonic clock.
func (g *gate) setClock() { g.settings.WallMinusMonoNs = plane.WallMinusMonoNs(g.opt.Now()) }

// loadKeys loads the missing keys, up to the horizon.
func (g *gate) loadKeys() error {
	return g.keys.Load(g.opt.Now().Add(g.cfg.ClockSkew), g.cfg.Epoch, g.cfg.KeyHorizon, func(n uint64) error {
		if !g.trial.covers(n, g.cfg.Epoch) {
			return nil
		}
		return g.plane.PutKey(n, CookieKey(g.cfg, g.secret, n))
	})
}

// CookieKey is the key that cookies of epoch n are verified with, in the layout of the
// gate before a server.
func CookieKey(cfg *config.Config, secret *keys.Roll, n uint64) [keys.EpochKeyLen]byte {
	if cfg.Server.Layout != config.LayoutSmartcookie {
		return secret.EpochKey(n)
	}
	var key [keys.EpochKeyLen]byte
	half := secret.SmartKey(n)
	copy(key[:], half[:])
	return key
}

// SmartFlag is the setting that tells the programs whether cookies have the layout smartcookie.
func SmartFlag(cfg *config.Config) uint8 {
	return instance.Flag(cfg.Server.Layout == config.LayoutSmartcookie)
}
