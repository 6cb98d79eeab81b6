/* SPDX-License-Identifier: Apache-2.0
 *
 * core/bloom.h in registers. Three partitions of 2^20 positions, each in four
 * generations, 32 positions to a word. A generation's words are contiguous, so that the
 * controller clears one by writing a range. The target has one thread for it, which
 * makes reading, changing and writing a word atomic. WORDS and READ_WORD are the architecture's.
 */
#ifndef TG_P4_BLOOM
#define TG_P4_BLOOM

#define BLOOM_WORDS (1 << (TG_BLOOM_BITS - 5)) /* of a generation's partition */

control Bloom(inout metadata_t m, in bit<32> lo, in bit<32> hi, in bit<1> look,
              in bit<1> put) {
    WORDS(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part0;
    WORDS(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part1;
    WORDS(TG_BLOOM_GENERATIONS * BLOOM_WORDS) part2;
    bit<32> at0;
    bit<32> at1;
    bit<32> at2;
    bit<32> w0;
    bit<32> w1;
    bit<32> w2;

    action locate() {
        at0 = lo & ((1 << TG_BLOOM_BITS) - 1);
        at1 = (lo + hi) & ((1 << TG_BLOOM_BITS) - 1);
        at2 = (lo + hi + hi) & ((1 << TG_BLOOM_BITS) - 1);
    }
    action read(bit<32> generation) {
        READ_WORD(part0, w0, generation * BLOOM_WORDS + (at0 >> 5));
        READ_WORD(part1, w1, generation * BLOOM_WORDS + (at1 >> 5));
        READ_WORD(part2, w2, generation * BLOOM_WORDS + (at2 >> 5));
        w0 = w0 >> at0[4:0];
        w1 = w1 >> at1[4:0];
        w2 = w2 >> at2[4:0];
    }
    action write(bit<32> generation) {
        READ_WORD(part0, w0, generation * BLOOM_WORDS + (at0 >> 5));
        READ_WORD(part1, w1, generation * BLOOM_WORDS + (at1 >> 5));
        READ_WORD(part2, w2, generation * BLOOM_WORDS + (at2 >> 5));
        part0.write(generation * BLOOM_WORDS + (at0 >> 5), w0 | (32w1 << at0[4:0]));
        part1.write(generation * BLOOM_WORDS + (at1 >> 5), w1 | (32w1 << at1[4:0]));
        part2.write(generation * BLOOM_WORDS + (at2 >> 5), w2 | (32w1 << at2[4:0]));
    }
    apply {
        locate();
        if (look == 1) {
            read(0);
            if ((w0 & w1 & w2 & 1) != 0) { m.known = m.known | 1; }
            read(1);
            if ((w0 & w1 & w2 & 1) != 0) { m.known = m.known | 2; }
            read(2);
            if ((w0 & w1 & w2 & 1) != 0) { m.known = m.known | 4; }
            read(3);
            if ((w0 & w1 & w2 & 1) != 0) { m.known = m.known | 8; }
        }
        if (put == 1) {
            write((bit<32>)m.generation);
        }
    }
}

#endif
