package host

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/config"
	"tidegate/internal/keys"
)

// setClock tells the packet path what to add to its monotonic clock. Only a
// stepped wall clock changes it; both clocks are slewed alike.
func (g *gate) setClock() {
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return // cannot happen; the value from before stays good
	}
	g.settings.WallMinusMonoNs = uint64(g.opt.Now().UnixNano() - mono.Nano())
}

// loadKeys loads the keys from a few epochs ago to the horizon. After the first
// time that is one key an epoch.
func (g *gate) loadKeys(now time.Time) error {
	list := keys.Epochs(now.Add(g.opt.Skew+g.cfg.ClockSkew), g.cfg.Epoch, g.cfg.KeyHorizon)
	if list[len(list)-1] < g.lastKey { // the clock was stepped back: those before were overwritten
		g.lastKey = 0
	}
	for _, n := range list {
		if g.lastKey != 0 && n <= g.lastKey {
			continue
		}
		if err := g.plane.PutKey(n, CookieKey(g.cfg, g.secret, n)); err != nil {
			return fmt.Errorf("key of epoch %d: %w", n, err)
		}
		g.lastKey = n
	}
	return nil
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

// SmartFlag tells the programs whether cookies have the layout smartcookie.
func SmartFlag(cfg *config.Config) uint8 { return flag(cfg.Server.Layout == config.LayoutSmartcookie) }

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
