//! The three counts of a run: the client's, the gateway's, the engines' own.
//!
//! Each party counts on its own and none sees the others' numbers, so a request that is lost,
//! doubled or invented on the way shows as a difference. A count that a party can't provide stays
//! empty: llama.cpp counts tokens but not requests, and a gateway reads cached tokens from the
//! answers and does not count output. Cached tokens are compared, too, if each party reports them.

use meridian_protocol::admin::Status;

use crate::{Client, ClientCounts, Result, Scrape};

/// One quantity, as counted by the three parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Its name.
    pub name: &'static str,
    /// The load generator's count.
    pub client: Option<u64>,
    /// The gateway's count.
    pub gateway: Option<u64>,
    /// The engines' count, summed.
    pub engines: Option<u64>,
}

/// All counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// One row per quantity.
    pub rows: Vec<Count>,
}

/// The engines' own counts, summed over replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// Requests that succeeded; none if an engine does not count requests.
    pub done: Option<u64>,
    /// Prompt tokens, including cached ones.
    pub prompt_tokens: u64,
    /// Of those, cached; none if answers report other counts: that of a decode engine reports the
    /// cached tokens of the engine that computed the prompt.
    pub cached_tokens: Option<u64>,
    /// Tokens generated.
    pub output_tokens: u64,
    /// Requests in the batch or waiting for it now.
    pub outstanding: u64,
}

impl EngineCounts {
    /// Reads the counts of the engines at these addresses.
    pub async fn ask<S: AsRef<str>>(
        client: &Client,
        urls: impl IntoIterator<Item = S>,
    ) -> Result<EngineCounts> {
        let mut sum =
            EngineCounts { done: Some(0), cached_tokens: Some(0), ..EngineCounts::default() };
        for url in urls {
            let one = EngineCounts::of(&client.scrape(url.as_ref()).await?);
            let add = |sum: Option<u64>, one: Option<u64>| Some(sum? + one?);
            sum.done = add(sum.done, one.done);
            sum.prompt_tokens += one.prompt_tokens;
            sum.cached_tokens = add(sum.cached_tokens, one.cached_tokens);
            sum.output_tokens += one.output_tokens;
            sum.outstanding += one.outstanding;
        }
        Ok(sum)
    }

    /// Reads one page, vLLM's or llama.cpp's.
    fn of(page: &Scrape) -> EngineCounts {
        let count = |name: &str| page.count(name).unwrap_or(0);
        let computed = count("llamacpp:prompt_tokens_total");
        let reused = count("llamacpp:prompt_tokens_cached_total");
        EngineCounts {
            done: succeeded(page),
            prompt_tokens: count("vllm:prompt_tokens_total") + computed + reused,
            cached_tokens: Some(count("vllm:prefix_cache_hits_total") + reused),
            output_tokens: count("vllm:generation_tokens_total")
                + count("llamacpp:tokens_predicted_total"),
            outstanding: count("vllm:num_requests_running")
                + count("vllm:num_requests_waiting")
                + count("llamacpp:requests_processing")
                + count("llamacpp:requests_deferred"),
        }
    }
}

impl Count {
    /// Whether all parties with a count have the same number.
    pub fn agrees(&self) -> bool {
        agree([self.client, self.gateway, self.engines])
    }
}

/// Whether all parties with a count have the same number.
pub(crate) fn agree(counts: [Option<u64>; 3]) -> bool {
    let mut counted = counts.into_iter().flatten();
    counted.next().is_none_or(|first| counted.all(|other| other == first))
}

/// Requests that a vLLM completed; those that a client aborted are not among them. None if the
/// engine does not count requests.
pub(crate) fn succeeded(page: &Scrape) -> Option<u64> {
    let name = "vllm:request_success_total";
    let aborted = page.count_with(name, &["finished_reason=\"abort\""]).unwrap_or(0);
    Some(page.count(name)?.saturating_sub(aborted))
}

impl Counts {
    /// The counts of all parties; `client` is none if the run had no load.
    pub fn new(client: Option<&ClientCounts>, gateway: &Status, engines: &EngineCounts) -> Counts {
        let row = |name, of: fn(&ClientCounts) -> u64, gateway, engines| Count {
            name,
            client: client.map(of),
            gateway,
            engines,
        };
        let prefix = &gateway.prefix;
        let rows = vec![
            row("requests accepted", |c| c.sent, Some(gateway.requests.accepted), None),
            row("requests done", |c| c.ok, Some(gateway.requests.done), engines.done),
            row(
                "requests in flight",
                |c| c.sent - c.ok - c.aborted - c.errors,
                Some(gateway.requests.in_flight),
                Some(engines.outstanding),
            ),
            row(
                "prompt tokens",
                |c| c.prompt_tokens,
                Some(prefix.known_prompt_tokens),
                Some(engines.prompt_tokens),
            ),
            row(
                "cached tokens",
                |c| c.cached_tokens,
                Some(prefix.cached_tokens),
                engines.cached_tokens,
            ),
            row("output tokens", |c| c.output_tokens, None, Some(engines.output_tokens)),
        ];
        Counts { rows }
    }

    /// The numbers of requests at clients and gateways. Runs with killed engines compare these: the
    /// counts of such engines are gone, and a resumed answer has tokens that only gateways count.
    pub fn of_requests(&self) -> Counts {
        let requests = self.rows.iter().filter(|row| row.name.starts_with("requests "));
        Counts { rows: requests.map(|row| Count { engines: None, ..*row }).collect() }
    }

    /// The names of the quantities on which the parties disagree.
    pub fn disagreements(&self) -> Vec<&'static str> {
        self.rows.iter().filter(|row| !row.agrees()).map(|row| row.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(page: &str) -> EngineCounts {
        EngineCounts::of(&Scrape::new(page.to_owned()))
    }

    // Both kinds of engine are read into the same counts. Requests that a client aborted are not
    // done, and llama.cpp does not count requests.
    #[test]
    fn pages_of_both_engines_are_read() {
        let vllm = "vllm:request_success_total{finished_reason=\"stop\"} 3\n\
                    vllm:request_success_total{finished_reason=\"abort\"} 1\n\
                    vllm:prompt_tokens_total{} 40\nvllm:prefix_cache_hits_total{} 16\n\
                    vllm:generation_tokens_total{} 9\nvllm:num_requests_waiting{} 2\n";
        let expected = EngineCounts {
            done: Some(3),
            prompt_tokens: 40,
            cached_tokens: Some(16),
            output_tokens: 9,
            outstanding: 2,
        };
        assert_eq!(engine(vllm), expected);
        let llama = "llamacpp:prompt_tokens_total 24\nllamacpp:prompt_tokens_cached_total 16\n\
                     llamacpp:tokens_predicted_total 9\nllamacpp:requests_deferred 2\n";
        assert_eq!(engine(llama), EngineCounts { done: None, ..expected });
    }

    // A missing count is not a disagreement; two different numbers are.
    #[test]
    fn only_numbers_that_differ_disagree() {
        let count = Count { name: "x", client: Some(1), gateway: None, engines: Some(1) };
        assert!(count.agrees());
        assert!(!Count { gateway: Some(2), ..count }.agrees());
        assert!(Count { client: None, engines: None, gateway: Some(2), ..count }.agrees());
    }
}
