// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A kernel without IPv6 has listeners all the same. One without the modules of inet_diag does not have none: nothing is known.
func TestWithoutModules(t *testing.T) {
	one := []Listener{{Port: 80}}
	list, err := scan(func(family uint8) ([]Listener, error) {
		if family == unix.AF_INET6 {
			return nil, unix.ENOENT
		}
		return one, nil
	})
	if err != nil || len(list) != 1 {
		t.Errorf("without IPv6: %v, %v", list, err)
	}
	list, err = scan(func(uint8) ([]Listener, error) { return nil, unix.ENOENT })
	if err == nil || !strings.Contains(err.Error(), "modprobe -a inet_diag tcp_diag") {
		t.Errorf("without inet_diag: %v, %v", list, err)
	}
}
