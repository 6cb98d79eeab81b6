// SPDX-License-Identifier: Apache-2.0

package bench

import "tidegate/internal/binding/sim"

// bindingsManagers and bindingsCount make a small network; the figures of the whole
// one are those of `tidegate-lab bindings`, which takes minutes.
const (
	bindingsManagers = 40
	bindingsCount    = 4000
)

// measureBindings floods bindings between managers in virtual time, all honest and
// with a fifth of them hostile. The result does not depend on this machine's speed.
func (b *terminusBench) measureBindings() error {
	for _, hostile := range []float64{0, 0.2} {
		o := sim.DefaultOptions()
		o.Managers, o.Bindings, o.Hostile = bindingsManagers, bindingsCount, hostile
		o.Progress = b.opt.Progress
		r, err := sim.Run(b.ctx, o)
		if err != nil {
			return err
		}
		b.res.Bindings = append(b.res.Bindings, r)
	}
	return nil
}
