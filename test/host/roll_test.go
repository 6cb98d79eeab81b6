// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/keys"
	harness "tidegate/test/world"
)

// A secret is replaced by SIGHUP: epochs from the given time on have keys of the new one,
// earlier ones keep theirs, and clients notice nothing. A secret that would break handshakes under way is
// refused, and so is a change that needs a restart: by name, never silently.
func TestSecretRollByReload(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	next := filepath.Join(w.dir, "next")
	w.must(os.WriteFile(next, []byte(strings.Repeat("c3", 32)+"\n"), 0o600))
	config := w.webConfig(webPort, "epoch: 1s", "key_horizon: 30s")
	g := w.start(config)
	l := w.startLoad()

	g.Reload(strings.Replace(config, "secret_file: secret", "secret_file: next", 1), "reload refused", "next_secret_file")
	g.Reload(config+"clock_skew: 100ms\n", "reload refused", "clock_skew changed")
	g.Reload(config+"metrics: 127.0.0.1:9999\n", "reload refused", "metrics changed")

	from := keys.EpochStart(keys.Epoch(time.Now(), time.Second)+3, time.Second)
	rolling := config + fmt.Sprintf("next_secret_file: next\nnext_secret_from: %s\n", from.UTC().Format(time.RFC3339Nano))
	g.Reload(rolling, "msg=reloaded")
	rolls := keys.Epoch(from, time.Second)
	harness.WantKey(t, w.Instance, w.secret, rolls-1)
	harness.WantKey(t, w.Instance, next, rolls)
	harness.WantKey(t, w.Instance, next, rolls+20)
	w.await("the roll", func() bool { return w.status().Epoch > rolls || l.failed() })
	l.more(50)

	g.Reload(strings.Replace(config, "secret_file: secret", "secret_file: next", 1), "msg=reloaded") // done: one secret again
	l.more(50)
	l.end()
	l.noFailure()
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "cookie_stale": 0})
}
