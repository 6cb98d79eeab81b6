// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"os"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/p4"
)

const switchPatience = 3 * time.Second

// switchChecks checks what the controller of a switch needs. Its machine needs nothing
// else: driving a switch takes neither BPF nor a privilege.
func switchChecks(c *config.Config) []Check {
	ctx, cancel := context.WithTimeout(context.Background(), switchPatience)
	defer cancel()
	list := []Check{{Name: "switch", Status: OK, Found: "answers at " + c.P4.Thrift}}
	if err := p4.Ping(ctx, c.P4.Thrift); err != nil { // a warning: the controller waits for it
		list[0] = Check{Name: "switch", Status: Warn, Found: firstLine(err), Means: "nothing is protected until it answers",
			Fix: "start simple_switch with that Thrift port, in the network namespace of `tidegate run`, or correct p4.thrift"}
	}
	if path := c.P4.Notifications; path != "" {
		check := Check{Name: "notifications", Status: OK, Found: path}
		info, err := os.Stat(path)
		if err == nil && info.Mode()&os.ModeSocket == 0 {
			err = fmt.Errorf("%s is not a socket", path)
		}
		if err != nil {
			check.Status, check.Found, check.Means = Warn, err.Error(), "nothing is learned from the switch"
			check.Fix = "start simple_switch with --notifications-addr ipc://" + path
		}
		list = append(list, check)
	}
	return append(list, secretCheck(c.SecretFile))
}
