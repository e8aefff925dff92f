/* Random numbers that are the same on every machine, compiler and run.
 *
 * One seed per plan; every use takes a stream of its own by name ("workload.arrivals"), so adding a
 * use somewhere does not change the numbers anywhere else. xoshiro256++ (Blackman and Vigna 2019),
 * seeded through splitmix64 from the seed and the name's hash. The distributions use only IEEE
 * arithmetic and libm's log, exp, sqrt, cos and erfc. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

struct rng rng_stream(uint64_t seed, const char *name);

uint64_t rng_u64(struct rng *r);
double rng_unit(struct rng *r);                /* [0, 1), 53 bits */
uint64_t rng_below(struct rng *r, uint64_t n); /* 0 .. n-1 without bias; n > 0 */
double rng_exponential(struct rng *r);         /* mean 1 */
double rng_normal(struct rng *r);              /* mean 0, standard deviation 1 */
double rng_gamma(struct rng *r, double shape); /* scale 1; shape > 0 (Marsaglia-Tsang) */

/* Without chance: below it lies a share p of the standard normal distribution; 0 < p < 1. */
double rng_normal_at(double p);

#endif
