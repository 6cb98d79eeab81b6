// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"errors"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

func TestDisturbedLoadIsVoid(t *testing.T) {
	if err := CheckDisturbed(load.ClientResult{LagMax: 900}, 2*time.Second, 1); err != nil {
		t.Errorf("900 ms late, timeout 2 s: %v", err)
	}
	if err := CheckDisturbed(load.ClientResult{LagMax: 1100}, 2*time.Second, 1); !errors.Is(err, ErrDisturbed) {
		t.Errorf("1.1 s late, timeout 2 s: %v, want ErrDisturbed", err)
	}
}

func TestValidateNamesTheOption(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"defence": func(o *Options) { o.Defence = "x" }, "clients": func(o *Options) { o.Clients = 0 },
		"load": func(o *Options) { o.Load = 0 }, "duration": func(o *Options) { o.Duration = -1 },
		"timeout": func(o *Options) { o.Timeout = 0 }, "requests": func(o *Options) { o.Requests = -1 },
		"ports": func(o *Options) { o.Ports = 70000 }, "size": func(o *Options) { o.ResponseSize = -1 },
		"server": func(o *Options) { o.Server = "apache" },
	} {
		o := DefaultOptions()
		change(&o)
		if o.Validate() == nil {
			t.Errorf("a bad %s is accepted", name)
		}
	}
}
