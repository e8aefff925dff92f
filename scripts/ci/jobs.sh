#!/bin/sh
# jobs.sh: how many tests run at once: half as many again as there are processors. Of the time that the tests
# take one after the other, two fifths are waiting: for servers, clients, arrivals.
set -eu
n=$(nproc)
echo $(((3 * n + 1) / 2))
