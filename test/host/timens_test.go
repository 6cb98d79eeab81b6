// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A gate in a time namespace (time_namespaces(7)), as a container is in that was moved here while it ran: its CLOCK_MONOTONIC is
// not that of the packet paths, which would find no key for their epoch and answer nobody.
func TestTimeNamespace(t *testing.T) {
	if _, err := os.Stat("/proc/self/timens_offsets"); err != nil {
		t.Skip("this kernel has no time namespaces: ", err)
	}
	const days = 10 * 86_400
	w := newWorld(t)
	w.echoServer(webPort)
	inside := filepath.Join(t.TempDir(), "tidegate")
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --time --monotonic %d --fork --kill-child %s \"$@\"\n", days, tidegate)
	if err := os.WriteFile(inside, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w.launchBinary(inside, w.webConfig(webPort)).AwaitReady()
	w.mustPingNew(5)
	w.wantCounters(map[string]uint64{"adopted": 10, "cookie_sent": 10})
}
