// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"strings"
)

// Policies and layouts, by the names that lwip/Makefile knows.
const (
	PolicyDrop          = "drop"
	PolicyRecycle       = "recycle-oldest"
	PolicyCookies       = "cookies"
	PolicyCookiesAlways = "cookies-always"

	LayoutClassic   = "classic"
	LayoutLinux     = "linux"
	LayoutLinuxSHA1 = "linux-sha1"
	LayoutUnrolled  = "linux-sha1-unrolled" // the same, faster and larger
	LayoutFreeBSD   = "freebsd"
	LayoutHybrid    = "hybrid"
	LayoutTidegate  = "tidegate"
)

// Policies lists every policy.
func Policies() []string {
	return []string{PolicyDrop, PolicyRecycle, PolicyCookies, PolicyCookiesAlways}
}

// Layouts lists every cookie layout.
func Layouts() []string {
	return []string{LayoutClassic, LayoutLinux, LayoutLinuxSHA1, LayoutUnrolled, LayoutFreeBSD, LayoutHybrid, LayoutTidegate}
}

// Queues are the queue lengths of the paper's Table 5.
func Queues() []int { return []int{2, 4, 8, 16} }

// Config is one device.
type Config struct {
	Policy string
	Layout string // unused if no cookies are sent
	Queue  int    // backlog of each listener
}

// Validate checks the configuration; an error names the option, its value, and valid values.
func (c Config) Validate() error {
	switch {
	case !slices.Contains(Policies(), c.Policy):
		return fmt.Errorf("--policy %q: want one of %s", c.Policy, strings.Join(Policies(), ", "))
	case !slices.Contains(Layouts(), c.Layout):
		return fmt.Errorf("--layout %q: want one of %s", c.Layout, strings.Join(Layouts(), ", "))
	case !slices.Contains(Queues(), c.Queue):
		return fmt.Errorf("--queue %d: want 2, 4, 8 or 16", c.Queue)
	}
	return nil
}

// Cookies reports whether the policy sends any.
func (c Config) Cookies() bool {
	return c.Policy == PolicyCookies || c.Policy == PolicyCookiesAlways
}

// image is the part of a file name that encodes the compile-time options.
func (c Config) image() string {
	if !c.Cookies() {
		return c.Policy + "-" + LayoutHybrid
	}
	return c.Policy + "-" + c.Layout
}

func (c Config) String() string {
	if !c.Cookies() {
		return fmt.Sprintf("%s, queue %d", c.Policy, c.Queue)
	}
	return fmt.Sprintf("%s %s, queue %d", c.Policy, c.Layout, c.Queue)
}
