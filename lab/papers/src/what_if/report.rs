//! The report of an answer: text for the terminal, and files.

use std::path::Path;

use meridian_tools::staged::{put, staged};
use meridian_tools::table::Table;

use super::answer::Answer;
use super::question::Question;
use super::{headline, json, page, plot, shadow, table};

/// A note about overloaded fleets.
pub(super) const OVERLOAD: &str = "These fleets get more than they can answer; 1.25x means a demand of \
                                   1.25 times the capacity. Their times grow with the length of the \
                                   trace, so compare only goodput.";

/// An answer with its question and the command that repeats it.
pub struct Report<'a> {
    /// The question.
    pub question: &'a Question,
    /// The answer.
    pub answer: &'a Answer,
    /// The command, with every default.
    pub command: &'a str,
}

impl Report<'_> {
    /// The answer in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        headline::sentence(self.question, self.answer)
    }

    /// The prices of the fleets in the sentence, if it compares two.
    #[must_use]
    pub fn prices(&self) -> Option<String> {
        headline::prices(self.question, self.answer)
    }

    /// The shadow policy of the journal beside the simulation.
    pub(super) fn shadow(&self) -> Option<Table> {
        shadow::table(self.question.traffic.shadow.as_ref()?, &self.answer.rows)
    }

    /// What was simulated, in one line.
    pub(super) fn traffic(&self) -> String {
        let Answer { requests, seconds, .. } = self.answer;
        format!(
            "{}: {requests:.0} requests in {seconds:.0} s ({}), the first {:.0} s of which warm the \
             caches and do not count.",
            self.question.traffic.name,
            match requests / seconds.max(1e-9) {
                rate if rate < 0.01 => format!("one in {:.0} s", 1.0 / rate),
                rate => format!("{rate:.2} a second"),
            },
            self.question.warmup.as_secs_f64(),
        )
    }

    /// For the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let (question, answer) = (self.question, self.answer);
        let mut parts = vec![
            self.sentence(),
            headline::least(question, answer),
            self.traffic(),
            table::fleets(question, answer).text().trim_end().to_owned(),
            table::more(question, answer).text().trim_end().to_owned(),
            table::least(question, answer).text().trim_end().to_owned(),
        ];
        parts.extend(self.shadow().map(|table| table.text().trim_end().to_owned()));
        let overloads = table::overloads(answer);
        if !overloads.is_empty() {
            parts.push(format!("OVERLOADED: {OVERLOAD}\n{}", overloads.join("\n")));
        }
        if !answer.notes.is_empty() {
            parts.push(answer.notes.join("\n"));
        }
        parts.push(format!("Repeat it with: {}", self.command));
        parts.join("\n\n")
    }

    /// Writes `report.html`, `report.txt`, `what-if.json`, `what-if.csv`, `what-if.parquet` and
    /// `ttft.svg` into `dir`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        staged(dir, |dir| self.write_files(dir))
    }

    fn write_files(&self, dir: &Path) -> anyhow::Result<()> {
        let put = |name: &str, text: &str| put(dir, name, text);
        let (question, answer) = (self.question, self.answer);
        let svg = plot::svg(question, answer)?;
        let value = json::json(question, answer, self.command);
        put("what-if.json", &(serde_json::to_string_pretty(&value)? + "\n"))?;
        json::flat(answer).write(dir, "what-if")?;
        put("ttft.svg", &svg)?;
        put("report.txt", &(self.text() + "\n"))?;
        put("report.html", &page::html(self, &svg))
    }
}
