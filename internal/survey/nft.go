// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// nftChain is one chain; a base chain has a hook.
type nftChain struct {
	family      nftFamily
	table, name string
	base        bool
	typ         string // filter, nat or route
	hook        uint32
	priority    int32
}

// of says whether packets of an IP family pass the chain.
func (c *nftChain) of(f family) bool { return c.base && c.family.sees(f) }

// nftRules is all of nftables in one network namespace.
type nftRules struct {
	chains []*nftChain
}

func readNFT() (*nftRules, error) {
	var r *nftRules
	err := consistently(func() error {
		r = &nftRules{}
		return r.readChains()
	})
	if absent(err) {
		return &nftRules{}, nil
	}
	return r, err
}

func (r *nftRules) readChains() error {
	answer, err := ask(unix.NFT_MSG_GETCHAIN, true)
	if err != nil {
		return err
	}
	for _, m := range answer {
		f := fieldsOf(m[nfgenSize:])
		c := &nftChain{family: nftFamily(m[0]), table: f.text(unix.NFTA_CHAIN_TABLE), name: f.text(unix.NFTA_CHAIN_NAME)}
		if hook, there := f[unix.NFTA_CHAIN_HOOK]; there {
			h := fieldsOf(hook)
			c.base, c.typ, c.hook = true, f.text(unix.NFTA_CHAIN_TYPE), h.number(unix.NFTA_HOOK_HOOKNUM)
			if p := h[unix.NFTA_HOOK_PRIORITY]; len(p) == 4 {
				c.priority = int32(binary.BigEndian.Uint32(p))
			}
		}
		r.chains = append(r.chains, c)
	}
	return nil
}
