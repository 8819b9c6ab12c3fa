#!/bin/sh
# Makes the two files beside this script from ServeGen's client rates, joined into one file a model
# with the columns client,window_start_s,rate_rps,cv,dist,param1,param2 (see SOURCE.md).
#
#     make.sh m-large_rates.csv m-mid_rates.csv
set -eu
here=$(dirname "$0")

# The 20 clients of m-large with the most requests on the first day, in windows of ten minutes.
top=$(awk -F, 'NR > 1 && $2 < 86400 { sum[$1] += $3 } END { for (c in sum) print sum[c] "," c }' "$1" |
    sort -t, -k1,1 -g -r | head -20 | cut -d, -f2 | tr '\n' ' ')
{
    echo client,window_start_s,rate_rps,cv,dist,param1,param2
    awk -F, -v top="$top" 'BEGIN { n = split(top, t, " "); for (i = 1; i <= n; i++) in_top[t[i]] = 1 }
        NR > 1 && $2 < 86400 && ($1 in in_top)' "$1" | sort -t, -k1,1n -k2,2n
} > "$here/m-large_top20_day1.csv"

# Both models over all clients and all 14 days, as mean requests a second of each hour.
hourly() {
    awk -F, 'NR > 1 { sum[int($2 / 3600)] += $3 / 6 } END { for (h = 0; h < 336; h++) print sum[h] }' "$1"
}
{
    echo hour,m_large_rps,m_mid_rps
    hourly "$1" > "$here/large.tmp"
    hourly "$2" | paste -d, "$here/large.tmp" - | awk '{ print NR - 1 "," $0 }'
    rm "$here/large.tmp"
} > "$here/hourly.csv"
