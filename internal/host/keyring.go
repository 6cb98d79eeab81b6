package host

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// setClock tells the packet path what to add to its monotonic clock.
func (g *gate) setClock() { g.settings.WallMinusMonoNs = plane.WallMinusMonoNs(g.opt.Now()) }

// loadKeys loads the keys that are lacking, up to the horizon.
func (g *gate) loadKeys(now time.Time) error {
	return g.keys.Load(now.Add(g.opt.Skew+g.cfg.ClockSkew), g.cfg.Epoch, g.cfg.KeyHorizon, func(n uint64) error {
		key := g.secret.EpochKey(n)
		if g.cfg.Server.Layout == config.LayoutSmartcookie {
			key = [keys.EpochKeyLen]byte{}
			half := g.secret.SmartKey(n)
			copy(key[:], half[:])
		}
		return g.plane.PutKey(n, key)
	})
}

func randomFilterKeys() (filterKeys [10]uint64, err error) {
	raw := make([]byte, 8*len(filterKeys))
	if _, err := rand.Read(raw); err != nil {
		return filterKeys, err
	}
	for i := range filterKeys {
		filterKeys[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return filterKeys, nil
}
