//! The GPUs of a server: NVIDIA's product names as the planner's kinds.

use meridian_engine::{GPUS, Gpu};

use super::parts::pci;
use crate::problem::{Problems, one_of};
use crate::units::Size;

/// A row of `nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The product.
    pub(super) name: String,
    /// Its memory, bytes.
    pub(super) memory: Option<f64>,
    /// Its PCI address.
    pub(super) address: Option<String>,
}

/// Reads the table; `None` if the text is not one, as the error of a missing program.
pub(super) fn rows(text: &str) -> Option<Vec<Row>> {
    let mut lines = text.lines().skip_while(|line| !line.contains("name"));
    let header: Vec<&str> = lines.next()?.split(',').map(str::trim).collect();
    let column = |stem: &str| header.iter().position(|name| name.starts_with(stem));
    let (name, memory, address) = (column("name")?, column("memory.total"), column("pci.bus_id"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |at: Option<usize>| at.and_then(|at| cells.get(at)).copied();
        let row = Row {
            name: cell(Some(name))?.to_owned(),
            memory: cell(memory).and_then(bytes),
            address: cell(address).and_then(pci),
        };
        (cells.len() == header.len()).then_some(row)
    };
    let rows: Vec<Row> = lines.filter(|line| !line.trim().is_empty()).map_while(row).collect();
    (!rows.is_empty()).then_some(rows)
}

/// A size as `nvidia-smi` writes it: 81559 MiB.
fn bytes(text: &str) -> Option<f64> {
    let number = text.strip_suffix("MiB")?.trim().parse::<f64>().ok()?;
    (number > 0.0).then_some(number * 1_048_576.0)
}

/// The kind of a product, and what differs from the product, if anything does.
///
/// # Errors
///
/// For a product that the planner does not know.
pub(super) fn kind(server: &str, row: &Row) -> Result<(Gpu, Option<String>), Problems> {
    let words: Vec<&str> = row.name.split([' ', '-']).collect();
    let has = |word: &str| words.contains(&word);
    let small = row.memory.is_some_and(|size| size < 50e9);
    let name = match () {
        () if has("H200") => "h200",
        () if has("H100") => "h100",
        () if has("A100") && (has("40GB") || small) => "a100-40g",
        () if has("A100") => "a100",
        () if has("V100") => "v100",
        () if has("L40S") => "l40s",
        () if has("L4") => "l4",
        () if has("RTX") && has("PRO") && has("6000") => "rtx-pro-6000",
        () if has("RTX") && has("4090") => "rtx-4090",
        () => return Err(unknown(server, &row.name)),
    };
    let gpu = Gpu::named(name).ok_or_else(|| unknown(server, &row.name))?;
    // The kinds have the figures of the module; the same chip on a PCIe card is slower.
    let on_card = ["h100", "h200", "a100", "a100-40g", "v100"].contains(&name)
        && (has("PCIe") || has("PCIE") || has("NVL"));
    let differs = on_card.then(|| {
        format!(
            "{} is planned as {name}, with the clocks and the memory bandwidth of the SXM module; \
             expect less",
            row.name
        )
    });
    Ok((gpu, differs))
}

fn unknown(server: &str, name: &str) -> Problems {
    let known: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
    let remedy = format!("give the kind to plan with, as in --gpu {}", one_of(name, &known));
    Problems::one(format!("{server}: GPU"), name, remedy)
}

/// The memory of a product, if it differs from the kind's by more than a twentieth: products of one
/// kind have several sizes, and drivers keep a part of each.
pub(super) fn memory(kind: &Gpu, row: &Row) -> Option<Size> {
    let size = row.memory?;
    ((size / kind.memory - 1.0).abs() > 0.05).then_some(Size(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, mebibytes: f64) -> Row {
        Row { name: name.to_owned(), memory: Some(mebibytes * 1_048_576.0), address: None }
    }

    // Product names, as NVIDIA's driver reports them, are kinds of the planner.
    #[test]
    fn products_are_kinds() {
        for (name, mebibytes, expected, differs) in [
            ("NVIDIA H100 80GB HBM3", 81559.0, "h100", false),
            ("NVIDIA H100 PCIe", 81559.0, "h100", true),
            ("NVIDIA H100 NVL", 95830.0, "h100", true),
            ("NVIDIA H200", 143_771.0, "h200", false),
            ("NVIDIA A100-SXM4-80GB", 81920.0, "a100", false),
            ("NVIDIA A100 80GB PCIe", 81920.0, "a100", true),
            ("NVIDIA A100-SXM4-40GB", 40960.0, "a100-40g", false),
            ("NVIDIA A100-PCIE-40GB", 40960.0, "a100-40g", true),
            ("Tesla V100-SXM2-32GB", 32768.0, "v100", false),
            ("NVIDIA L40S", 46068.0, "l40s", false),
            ("NVIDIA L4", 23034.0, "l4", false),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887.0, "rtx-pro-6000", false),
            ("NVIDIA GeForce RTX 4090", 24564.0, "rtx-4090", false),
        ] {
            let (gpu, note) = kind("a", &row(name, mebibytes)).unwrap();
            assert_eq!((gpu.name, note.is_some()), (expected, differs), "{name}");
        }
        let error = kind("a", &row("NVIDIA RTX 6000 Ada Generation", 49140.0)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("a: GPU: NVIDIA RTX 6000 Ada Generation; give the kind"),
            "{text}"
        );
        assert!(kind("a", &row("NVIDIA L40", 46068.0)).is_err(), "an L40 is slower than an L40S");
    }

    // The memory is that of the kind, unless the product has another size.
    #[test]
    fn other_sizes_are_kept() {
        let size = |name: &str, mebibytes: f64| {
            let row = row(name, mebibytes);
            memory(&kind("a", &row).unwrap().0, &row)
        };
        assert_eq!(size("NVIDIA H100 80GB HBM3", 81559.0), None);
        assert_eq!(size("NVIDIA H100 NVL", 95830.0), Some(Size(95830.0 * 1_048_576.0)));
        assert!(size("Tesla V100-SXM2-16GB", 16384.0).is_some());
    }

    // Columns are found by their names; a message in place of a table is none.
    #[test]
    fn rows_of_a_table() {
        let text = "index, name, memory.total [MiB], pci.bus_id\n\
                    0, NVIDIA H100 80GB HBM3, 81559 MiB, 00000000:1B:00.0\n";
        let all = rows(text).unwrap();
        assert_eq!(all[0].name, "NVIDIA H100 80GB HBM3");
        assert_eq!(all[0].memory, Some(81559.0 * 1_048_576.0));
        assert_eq!(all[0].address.as_deref(), Some("0000:1b:00.0"));
        let named =
            rows("name, memory.total [MiB]\nNVIDIA L4, [N/A]\nNVIDIA L4, 23034 MiB").unwrap();
        assert_eq!((named.len(), named[0].memory), (2, None));
        for text in ["", "sh: 1: nvidia-smi: not found", "No devices were found", "index, name\n"] {
            assert_eq!(rows(text), None, "{text}");
        }
    }
}
