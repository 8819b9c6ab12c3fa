//! Writes an experiment's results: text for the terminal, a page, plots, and a file for programs.

use std::path::Path;

use meridian_protocol::units::Span;
use meridian_tools::staged::{put, staged};
use meridian_tools::{commit, results};

use super::spec::Measure;
use super::{Findings, Outcome, claim, live};

/// The note about overloaded systems.
const OVERLOAD: &str = "These systems got more requests than they could answer. Their times grow \
                        with the length of the run, so do not compare them.";

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

/// A path, quoted for the shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl Outcome {
    /// The tables and the published figures, for the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let Findings { tables, claims, violations, overloads, legend, .. } = &self.findings;
        let mut parts: Vec<String> =
            tables.iter().map(meridian_tools::table::Table::text).collect();
        if !legend.is_empty() {
            parts.push(format!("{}\n", legend.join("\n")));
        }
        if !claims.is_empty() {
            parts.push(claim::table(claims).text());
        }
        if !overloads.is_empty() {
            parts.push(format!("OVERLOADED: {OVERLOAD}\n{}\n", overloads.join("\n")));
        }
        if !violations.is_empty() {
            parts.push(format!("BROKEN INVARIANTS\n{}\n", violations.join("\n")));
        }
        parts.push(format!("Repeat it with: {}\n", self.command()));
        parts.join("\n")
    }

    /// The page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Findings { tables, claims, figures, violations, params, overloads, legend, .. } =
            &self.findings;
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
            parts.extend(tables.iter().map(meridian_tools::table::Table::markdown));
        }
        if !legend.is_empty() {
            parts.push(format!("Columns:\n\n{}", list(legend)));
        }
        if !overloads.is_empty() {
            parts.push(format!("## Overloaded systems\n\n{OVERLOAD}\n\n{}", list(overloads)));
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
        let path = |flag: &str, path: &Path| format!(" {flag} {}", quoted(path));
        let servers = self.given.servers.as_ref().map(|own| {
            let layers = own.gpu_layers().map(|n| format!(" --gpu-layers {n}")).unwrap_or_default();
            path("--llama-server", own.program()) + &path("--gguf", own.model()) + &layers
        });
        let servers = servers.unwrap_or_default();
        let file = self.given.file.as_deref().map(|file| path("--file", file)).unwrap_or_default();
        let usual = super::folder(self.name);
        let out = self.given.out.as_deref().filter(|out| *out != usual);
        let out = out.map(|out| path("--out", out)).unwrap_or_default();
        let commit = self.given.commit.as_deref().filter(|_| self.spec.draw.is_some());
        let commit = commit.map(|hash| format!(" --commit {hash}")).unwrap_or_default();
        let (name, seeds) = (self.name, self.seeds);
        format!(
            "meridian experiment {name} --seeds {seeds}{quick}{live}{servers}{file}{out}{commit}"
        )
    }

    fn how(&self) -> String {
        if self.live {
            return live::how(&self.spec, self.quick) + " ";
        }
        let small = if self.quick { "**Small variant: its figures say nothing.** " } else { "" };
        if self.spec.regions.is_none() && self.spec.world.is_none() {
            return small.to_owned();
        }
        format!(
            "{small}All figures are simulated: {}; values are means over {} with bootstrap 95 % \
             intervals in brackets. ",
            self.windows(),
            self.which_seeds(),
        )
    }

    /// The measured part of a run: once if it is the same for all workloads.
    fn windows(&self) -> String {
        let usual = if self.quick { self.spec.quick.measure } else { self.spec.measure };
        let show = |m: Measure| {
            let seconds = |span: Span| span.0.as_secs_f64();
            let (window, warmup) = (seconds(m.window), seconds(m.warmup));
            format!("{window} s of a run count, after {warmup} s of warm-up")
        };
        let windows = &self.findings.windows;
        let first = windows.first().map_or(usual, |(_, measure)| *measure);
        if windows.iter().all(|(_, measure)| *measure == first) {
            return show(first);
        }
        let each = windows.iter().map(|(name, measure)| format!("of {name} {}", show(*measure)));
        each.collect::<Vec<_>>().join(", ")
    }

    fn which_seeds(&self) -> String {
        match (self.spec.first_seed, self.seeds) {
            (1, n) => format!("{n} seeds"),
            (first, n) => format!("seeds {first} to {}", first + u64::from(n) - 1),
        }
    }

    /// Writes the page, the plots, `results.json`, and its rows as `results.csv` and
    /// `results.parquet`, into `dir`.
    ///
    /// # Errors
    /// When a file can't be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        staged(dir, |dir| self.write_files(dir))
    }

    fn write_files(&self, dir: &Path) -> anyhow::Result<()> {
        let put = |name: &str, text: &str| put(dir, name, text);
        let Findings { rows, params, figures, .. } = &self.findings;
        let file = results::file(self.name, &commit(), self.seeds, rows.clone(), params);
        for (name, text) in &self.findings.files {
            put(name, text)?;
        }
        put("results.json", &(serde_json::to_string_pretty(&file)? + "\n"))?;
        results::flat(rows).write(dir, "results")?;
        for figure in figures {
            put(&format!("{}.svg", figure.name), &figure.svg)?;
        }
        put("report.md", &self.markdown())
    }
}
