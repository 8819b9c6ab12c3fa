//! One page of Prometheus text, for the few sums that a fleet reads from its engines.

/// A metrics page, unparsed.
#[derive(Debug, Clone)]
pub struct Scrape {
    text: String,
}

impl Scrape {
    /// Wraps a page.
    pub fn new(text: String) -> Scrape {
        Scrape { text }
    }

    /// The sum of a metric over all its labels; none if the page does not contain it.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let values = self.text.lines().filter_map(|line| value_of(line, name));
        values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// The sum of a counter as a whole number.
    pub fn count(&self, name: &str) -> Option<u64> {
        // Counters are doubles on the page; whole numbers up to 2^53 are exact.
        self.sum(name).map(|sum| sum as u64)
    }

    /// The same over only those samples with these labels, written as on the page: `a="b"`.
    pub fn count_with(&self, name: &str, labels: &[&str]) -> Option<u64> {
        self.sum_with(name, labels).map(|sum| sum as u64)
    }

    /// The sum of a metric over only those samples with these labels.
    pub fn sum_with(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let has_all = |line: &&str| labels.iter().all(|label| line.contains(label));
        let lines = self.text.lines().filter(has_all);
        let values = lines.filter_map(|line| value_of(line, name));
        values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
    }

    /// The samples of a metric above 0: its labels as on the page, and the value.
    pub fn samples(&self, name: &str) -> Vec<(String, f64)> {
        let sample = |line: &str| {
            let labels = line.strip_prefix(name)?.strip_prefix('{')?;
            let labels = &labels[..labels.rfind('}')?];
            Some((labels.to_owned(), value_of(line, name).filter(|value| *value > 0.0)?))
        };
        self.text.lines().filter_map(sample).collect()
    }
}

/// The value of a sample line of that metric: `name 1` or `name{a="b"} 1`.
fn value_of(line: &str, name: &str) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let value = match rest.strip_prefix('{') {
        // A label's value may contain anything but an unescaped quote; the metric's value comes
        // last.
        Some(labels) => &labels[labels.rfind('}')? + 1..],
        None => rest.strip_prefix(' ')?,
    };
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sums include all labels; neither a longer name nor a comment is taken for the metric.
    #[test]
    fn sums_are_over_labels_of_that_name_alone() {
        let page = "# HELP done x\ndone{a=\"}\"} 1\ndone{a=\"2\"} 2.0\ndone_total 7\nfree 3 1700\n";
        let page = Scrape::new(page.to_owned());
        assert_eq!(page.sum("done"), Some(3.0));
        assert_eq!(page.count("done_total"), Some(7));
        assert_eq!(page.sum("free"), Some(3.0));
        assert_eq!(page.sum("absent"), None);
        assert_eq!(page.count_with("done", &["a=\"2\""]), Some(2));
        let labelled = [("a=\"}\"".to_owned(), 1.0), ("a=\"2\"".to_owned(), 2.0)];
        assert_eq!(page.samples("done"), labelled);
    }
}
