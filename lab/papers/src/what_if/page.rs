//! The report as one HTML page. It loads nothing, has no script, and follows the reader's light or
//! dark setting.

use std::fmt::Write as _;

use meridian_tools::table::Table;

use super::report::{OVERLOAD, Report};
use super::{headline, table};

const STYLE: &str = include_str!("page.css");

/// The page.
pub(super) fn html(report: &Report<'_>, svg: &str) -> String {
    let (question, answer) = (report.question, report.answer);
    let sentence = escape(&report.sentence());
    let mut body = format!(
        "<h1>{sentence}</h1>\n<p>{}</p>\n<p>{} Every figure is simulated, unless it says live.</p>\n",
        escape(&headline::least(question, answer)),
        escape(&report.traffic()),
    );
    let overloads = table::overloads(answer);
    if !overloads.is_empty() {
        body += &format!(
            "<section class=\"warning\" aria-label=\"Overloaded fleets\">\n<h2>Overloaded fleets</h2>\n\
             <p>{OVERLOAD}</p>\n{}</section>\n",
            list(&overloads)
        );
    }
    body += &format!("<figure>\n{}</figure>\n", themed(svg));
    body += &html_table(&table::fleets(question, answer));
    body += &html_table(&table::more(question, answer));
    body += &html_table(&table::least(question, answer));
    if let Some(shadow) = report.shadow() {
        body += &html_table(&shadow);
    }
    if !answer.notes.is_empty() {
        body += &format!("<h2>Notes</h2>\n{}", list(&answer.notes));
    }
    body += &format!(
        "<h2>Repeat it</h2>\n<pre tabindex=\"0\"><code>{}</code></pre>\n",
        escape(report.command)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>What if: {sentence}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// The plot in the colours of the page: white is its ground, black its text.
fn themed(svg: &str) -> String {
    let svg = svg.find("<svg ").map_or(svg, |start| &svg[start..]);
    svg.replace("fill=\"#FFFFFF\"", "fill=\"none\"")
        .replace("fill=\"#000000\"", "fill=\"currentColor\"")
        .replace("stroke=\"#000000\"", "stroke=\"currentColor\"")
}

fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{items}</ul>\n")
}

fn html_table(table: &Table) -> String {
    let title = escape(&table.title);
    let mut out = format!(
        "<div class=\"table\" role=\"region\" aria-label=\"{title}\" tabindex=\"0\">\n<table>\n\
         <caption>{title}</caption>\n<thead><tr>"
    );
    // Columns of words among the first ones; the rest are numbers.
    let words = |at: usize| {
        at < 3 && table.rows.iter().any(|row| row.get(at).is_some_and(|cell| is_word(cell)))
    };
    for (at, name) in table.header.iter().enumerate() {
        let class = if words(at) { " class=\"words\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match at {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ if cell.starts_with("overloaded") => {
                    write!(out, "<td class=\"words over\">{cell}</td>")
                }
                _ if words(at) => write!(out, "<td class=\"words\">{cell}</td>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}

fn is_word(cell: &str) -> bool {
    let figure = cell.split(" ±").next().unwrap_or_default();
    !cell.is_empty() && figure.parse::<f64>().is_err()
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // A name from a trace or a file can't become markup.
    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
        let mut table = Table::new("<t>", &["p", "f"]);
        table.row(["<script>".to_owned(), "1".to_owned()]);
        let html = html_table(&table);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
    }

    // White and black of the plot follow the page, and other colours stay.
    #[test]
    fn the_plot_follows_the_page() {
        let svg = "<?xml?><svg width=\"9\"><rect fill=\"#FFFFFF\"/><path stroke=\"#000000\"/>\
                   <path stroke=\"#0072B2\"/></svg>";
        let themed = themed(svg);
        assert!(themed.starts_with("<svg ") && themed.contains("stroke=\"currentColor\""));
        assert!(!themed.contains("#FFFFFF") && themed.contains("#0072B2"), "{themed}");
    }
}
