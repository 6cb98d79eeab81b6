// SPDX-License-Identifier: Apache-2.0

package device

// The figures of the paper (Echevarria, Garaizar, Legarda 2017): an LPC1768 at
// 100 MHz with lwIP 1.4.0, 30 samples each, 200 SYN/s, Mb/s.

// paperNoAttack and the rows below it are its Table 4.
var paperNoAttack = Sample{N: 30, Mean: 33.72, SD: 0.045}

func paperTable4() map[string]Sample {
	return map[string]Sample{
		LayoutFreeBSD:   {N: 30, Mean: 31.94, SD: 0.094},
		LayoutLinuxSHA1: {N: 30, Mean: 31.67, SD: 0.073},
		LayoutHybrid:    {N: 30, Mean: 31.91, SD: 0.081},
	}
}

// paperTable5 is its Table 5: recycling with queues of 2, 4, 8, 16, and cookies.
func paperTable5() []Sample {
	return []Sample{
		{N: 30, Mean: 31.7557, SD: 0.03126, Min: 31.68, Max: 31.79},
		{N: 30, Mean: 31.6113, SD: 0.06307, Min: 31.50, Max: 31.70},
		{N: 30, Mean: 31.4400, SD: 0.03778, Min: 31.38, Max: 31.51},
		{N: 30, Mean: 31.3297, SD: 0.03891, Min: 31.25, Max: 31.39},
		{N: 30, Mean: 31.9107, SD: 0.02924, Min: 31.86, Max: 31.97},
	}
}
