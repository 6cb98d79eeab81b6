// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
)

// LoadSecrets reads the secret of a configuration, and the next one if it names one.
func LoadSecrets(c *config.Config) (*keys.Roll, error) {
	return keys.LoadRoll(c.SecretFile, c.NextSecret.File, c.NextSecret.From, c.Epoch)
}

// PrepareSecrets reads the secrets of a configuration that is to replace r's; see keys.Roll.Prepare.
func PrepareSecrets(r *keys.Roll, l *keys.Loader, c *config.Config, now time.Time) (commit, drop func(), err error) {
	next, err := LoadSecrets(c)
	if err != nil {
		return nil, nil, err
	}
	return r.Prepare(next, l, now, c.ClockSkew, c.Epoch)
}
