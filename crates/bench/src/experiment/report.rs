//! What an experiment leaves behind: text for the terminal, a page, plots, a file for programs.

use std::path::Path;

use anyhow::Context as _;

use super::{Findings, Outcome, claim, live, results};
use crate::commit;

impl Outcome {
    /// The tables and the published figures, for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let Findings { tables, claims, violations, .. } = &self.findings;
        let mut parts: Vec<String> = tables.iter().map(super::table::Table::text).collect();
        if !claims.is_empty() {
            parts.push(claim::table(claims).text());
        }
        if !violations.is_empty() {
            parts.push(format!("BROKEN INVARIANTS\n{}\n", violations.join("\n")));
        }
        parts.join("\n")
    }

    /// The page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Findings { tables, claims, figures, violations, params, .. } = &self.findings;
        let spec = &self.spec;
        let mut parts = vec![
            format!("# {}", spec.title),
            format!("Reproduces: {}.", spec.reproduces),
            format!(
                "Made by `{}` at commit {}. {}Parameters of the engines, the workloads and the \
                 network: `{params}`.",
                self.command(),
                commit(),
                self.how(),
            ),
        ];
        if !claims.is_empty() {
            parts.push("## Published figures beside ours".to_owned());
            parts.push(claim::table(claims).markdown());
        }
        if !spec.notes.trim().is_empty() {
            parts.push(format!("## Notes\n\n{}", spec.notes.trim()));
        }
        if !tables.is_empty() {
            parts.push("## Results".to_owned());
            parts.extend(tables.iter().map(super::table::Table::markdown));
        }
        if !figures.is_empty() {
            parts.push("## Plots".to_owned());
            parts.extend(figures.iter().map(|f| format!("![{}]({}.svg)", f.title, f.name)));
        }
        parts.push(match violations.as_slice() {
            [] => "No invariant was broken in any run.".to_owned(),
            words => format!("## Broken invariants\n\n{}", words.join("\n")),
        });
        parts.join("\n\n") + "\n"
    }

    /// The command that repeats it.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let live = if self.live { " --live" } else { "" };
        format!("meridian experiment {} --seeds {}{quick}{live}", self.name, self.seeds)
    }

    fn how(&self) -> String {
        if self.live {
            return live::how(&self.spec, self.quick) + " ";
        }
        if self.spec.regions.is_none() && !self.spec.comparison {
            return String::new();
        }
        let measure = self.spec.measure;
        let measure = if self.quick { self.spec.quick.measure } else { measure };
        let show = |span: meridian_wire::config::Span| format!("{} s", span.0.as_secs_f64());
        let small = if self.quick { "**Small variant: its figures say nothing.** " } else { "" };
        format!(
            "{small}All figures are simulated: {} of a run count, after {} of warm-up; values are \
             means over {} with bootstrap 95 % intervals in brackets. ",
            show(measure.window),
            show(measure.warmup),
            self.which_seeds(),
        )
    }

    fn which_seeds(&self) -> String {
        match (self.spec.first_seed, self.seeds) {
            (1, n) => format!("{n} seeds"),
            (first, n) => format!("seeds {first} to {}", first + u64::from(n) - 1),
        }
    }

    /// Writes the page, the plots and `results.json` into `dir`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let put = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let Findings { rows, params, figures, .. } = &self.findings;
        let file = results::file(self.name, &commit(), self.seeds, rows.clone(), params);
        for (name, text) in &self.findings.files {
            put(name, text)?;
        }
        put("results.json", &(serde_json::to_string_pretty(&file)? + "\n"))?;
        for figure in figures {
            put(&format!("{}.svg", figure.name), &figure.svg)?;
        }
        put("report.md", &self.markdown())
    }
}
