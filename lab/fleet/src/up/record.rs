//! `--record`: the folder with what the gateways write about each request, and the check that all of
//! it tells the same.
//!
//! Each gateway writes its access log and its journal there. A collector in this process takes their
//! traces and writes them into one file. Everything that shows a request is counted on its own, from
//! what its reader would see: the files line by line, the metrics as Prometheus reads them, the points
//! of the page.

mod collector;
mod rows;
mod tally;

use std::path::{Path, PathBuf};

use tokio::time::Instant;

use self::collector::Collector;
use self::rows::Rows;
use self::tally::Tally;
use super::world::World;
use super::{SETTLE, TICK};
use crate::page::Seen;
use crate::{ClientCounts, Error, Result};

/// The records of a run.
pub(super) struct Record {
    dir: PathBuf,
    collector: Collector,
}

impl Record {
    /// Makes the folder, and starts the collector.
    pub(super) async fn start(dir: &Path) -> Result<Record> {
        std::fs::create_dir_all(dir).map_err(Error::file("making", dir))?;
        let mut files = std::fs::read_dir(dir).map_err(Error::file("reading", dir))?;
        // Gateways append to their files: counts would be those of two runs.
        if files.next().is_some() {
            return Err(Error::Setting {
                field: "--record",
                value: dir.display().to_string(),
                remedy: "the folder is not empty; name a new one".into(),
            });
        }
        let dir = dir.canonicalize().map_err(Error::file("reading", dir))?;
        let collector = Collector::start(dir.join("traces.jsonl")).await?;
        Ok(Record { dir, collector })
    }

    /// The lines of a gateway's file. Its traces have its name.
    pub(super) fn config(&self, gateway: &str) -> String {
        let [log, journal] = self.files(gateway);
        let address = self.collector.address;
        format!(
            "access_log: {{to: {log:?}}}\njournal: {{to: {journal:?}, block_tokens: 16}}\n\
             traces: {{endpoint: \"http://{address}\", protocol: http, service_name: {gateway}}}\n"
        )
    }

    fn files(&self, region: &str) -> [PathBuf; 2] {
        ["access", "journal"].map(|kind| self.dir.join(format!("{region}.{kind}.jsonl")))
    }

    /// Prints the counts of all places once the gateways have exited, and returns where they differ.
    pub(super) fn judge(
        &self,
        counted: Option<Vec<Counted>>,
        client: Option<&ClientCounts>,
    ) -> Vec<String> {
        let rows = counted.map(|counted| self.rows(&counted, client));
        let faults = match rows {
            Some(Ok(rows)) => {
                println!("\n{}", rows.table());
                rows.faults()
            }
            Some(Err(error)) => vec![error.to_string()],
            None => Vec::new(),
        };
        println!("\nthe records are in {}", self.dir.display());
        faults
    }

    fn rows(&self, counted: &[Counted], client: Option<&ClientCounts>) -> Result<Rows> {
        let traces = tally::traces(&self.collector.file)?;
        let mut rows = Rows::new(client);
        for Counted { region, status, metrics, page } in counted {
            let [log, journal] = self.files(region);
            let (log, journal) = (tally::access_log(&log)?, tally::journal(&journal)?);
            let traces = traces.get(region).copied().unwrap_or_default();
            rows.add(region, [*status, *metrics, *page, log, journal, traces]);
        }
        Ok(rows)
    }
}

/// What a gateway counts that is still running.
pub(super) struct Counted {
    region: String,
    status: Tally,
    metrics: Tally,
    page: Tally,
}

impl World {
    /// What the gateways count after the load; none without records, and after an order: killed
    /// processes take their counts with them. The page samples its gateway once a second, so it may
    /// need a moment to show the last requests.
    pub(super) async fn counted(
        &mut self,
        seen: &[Seen],
        faults: &mut Vec<String>,
    ) -> Option<Vec<Counted>> {
        if self.record.is_none() || !self.orders.is_empty() {
            return None;
        }
        let late = Instant::now() + SETTLE;
        loop {
            match self.count(seen).await {
                Ok(counted) if counted.iter().all(Counted::is_whole) || Instant::now() > late => {
                    return Some(counted);
                }
                Ok(_) => tokio::time::sleep(TICK / 5).await,
                Err(error) => {
                    faults.push(error.to_string());
                    return None;
                }
            }
        }
    }

    async fn count(&mut self, seen: &[Seen]) -> Result<Vec<Counted>> {
        self.pages().await;
        let mut counted = Vec::new();
        for (region, seen) in self.regions.iter().zip(seen) {
            let (Some(gateway), Some(status)) = (region.answering(), &seen.status) else {
                continue;
            };
            counted.push(Counted {
                region: region.name.clone(),
                status: Tally::of_status(status),
                metrics: Tally::of_metrics(&self.client.scrape(&gateway.admin).await?),
                page: Tally::of_page(&self.hours.last(&region.name, usize::MAX)),
            });
        }
        Ok(counted)
    }
}

impl Counted {
    fn is_whole(&self) -> bool {
        self.page.is_within(&self.status) && self.metrics.is_within(&self.status)
    }
}
