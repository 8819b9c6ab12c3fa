//! The table, and readings of it inside its range and at both ends.

use expect_test::expect;

use super::reading::read_from;
use super::*;

// The program's table has the numbers of the table in lab/results/mfs-load.md, so that neither can change alone.
#[test]
fn the_table_is_that_of_the_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/results/mfs-load.md");
    let page = std::fs::read_to_string(path).expect("the page is in the repository");
    let is_row =
        |line: &&str| line.starts_with("| agents |") || line.starts_with("| conversations |");
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = page.lines().filter(is_row).map(cells).collect();
    let mut lines = CSV.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let of_page = |row: &Vec<String>| {
        [row[0].clone(), row[1].clone(), row[2].clone(), row[3].clone(), row[4].clone()]
            .into_iter()
            .chain([row[6].clone(), row[8].clone(), row[9].clone()])
            .collect::<Vec<_>>()
    };
    let of_file = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |name: &str| cells[header.iter().position(|known| *known == name).unwrap()];
        let ratio = |name: &str| {
            let [low, high] = ["_low", "_high"].map(|end| cell(&format!("{name}{end}")).to_owned());
            format!("{} ({low} to {high})", cell(name))
        };
        let contention = format!("{}, {}", cell("contention_ttft"), cell("contention_exchange"));
        let plain =
            ["workload", "card_gbps", "kv_layers", "use_percent"].map(|c| cell(c).to_owned());
        let end = [contention, cell("in_time_percent").to_owned()];
        let ratios = ["mfs_over_two_class", "mfs_over_two_class_floor"].map(ratio);
        plain.into_iter().chain(end).chain(ratios).collect::<Vec<_>>()
    };
    let page: Vec<_> = rows.iter().map(of_page).collect();
    let file: Vec<_> = lines.map(of_file).collect();
    assert_eq!(page.len(), 24);
    assert_eq!(file, page);
}

const SMALL: &str = "\
# a comment
workload,card_gbps,kv_layers,use_percent,in_time_percent,mfs_over_fair,mfs_over_fair_low,mfs_over_fair_high,two_class_over_fair,two_class_over_fair_low,two_class_over_fair_high,two_class_floor_over_fair,two_class_floor_over_fair_low,two_class_floor_over_fair_high,mfs_over_two_class_floor,mfs_over_two_class_floor_low,mfs_over_two_class_floor_high
chats,100,all,10,80,1.0,0.9,1.1,1,1,1,1,1,1,1,1,1
chats,50,all,20,70,1.2,1.1,1.3,0.9,0.8,1.0,1.1,1.0,1.2,1.1,1,1.2
chats,50,1,25,70,2,2,2,2,2,2,2,2,2,2,2,2
";

// Between two rows, values lie on the line between them; on a row they are the row's. Other
// granularities do not matter.
#[test]
fn a_use_between_rows() {
    let rows = table::parsed(SMALL).unwrap();
    let at = |used: f64| read_from(&rows, used, Layers::All).remove(0);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let middle = at(0.15);
    assert_eq!(middle.place, Place::Within);
    assert!(near(middle.mfs.mean, 1.1) && near(middle.mfs.low, 1.0) && near(middle.mfs.high, 1.2));
    assert!(near(middle.floor.mean, 1.05) && near(middle.two_class.mean, 0.95));
    assert!(near(at(0.10).mfs.mean, 1.0) && near(at(0.20).mfs.mean, 1.2));
    assert_eq!([at(0.10).place, at(0.20).place], [Place::Within; 2]);
}

// Below the range no gain is claimed. Above it the last row stands, and no line goes on.
#[test]
fn a_use_beyond_the_rows() {
    let rows = table::parsed(SMALL).unwrap();
    let at = |used: f64| read_from(&rows, used, Layers::All).remove(0);
    assert_eq!((at(0.09).place, at(0.09).mfs.mean), (Place::Below(0.10), 1.0));
    assert_eq!((at(0.0).place, at(0.0).floor.mean), (Place::Below(0.10), 1.0));
    assert_eq!((at(0.21).place, at(0.21).mfs.mean), (Place::Above(0.20), 1.2));
    assert_eq!((at(5.0).place, at(5.0).mfs.high), (Place::Above(0.20), 1.3));
}

// A damaged file is an error that names the line.
#[test]
fn a_damaged_file() {
    let wrong = table::parsed("workload,card_gbps\nchats,fast\n").unwrap_err();
    assert_eq!(wrong, "chats,fast: card_gbps is not a number");
}

// Every granularity has both workloads, each with rows in the order of their use.
#[test]
fn the_table_is_whole() {
    for layers in [Layers::One, Layers::Four, Layers::All] {
        let found = read(0.2, layers);
        let names: Vec<_> = found.iter().map(|one| one.workload).collect();
        assert_eq!(names, ["agents", "conversations"], "{layers}");
        assert!(found.iter().all(|one| one.place == Place::Within), "{layers}");
    }
    assert_eq!(rows().len(), 24);
}

// The advice over the whole range, for each granularity.
#[test]
fn advice() {
    let mut text = String::new();
    for layers in [Layers::One, Layers::Four, Layers::All] {
        let at = |percent: u32| advise(Some(f64::from(percent) / 100.0), layers).name();
        let line: Vec<String> =
            [0, 5, 9, 12, 16, 20, 25, 30, 60].map(|p| format!("{p} {}", at(p))).to_vec();
        text += &format!("{layers}: {}\n", line.join(", "));
    }
    assert_eq!(advise(None, Layers::All), Advice::Unknown);
    expect![[r#"
        1: 0 nothing, 5 nothing, 9 two_classes_with_floor, 12 two_classes_with_floor, 16 two_classes_with_floor, 20 two_classes_with_floor, 25 kv_gate, 30 kv_gate, 60 kv_gate
        4: 0 nothing, 5 nothing, 9 two_classes_with_floor, 12 two_classes_with_floor, 16 two_classes_with_floor, 20 two_classes_with_floor, 25 kv_gate, 30 kv_gate, 60 kv_gate
        all: 0 nothing, 5 nothing, 9 kv_layer_by_layer, 12 two_classes_with_floor, 16 two_classes_with_floor, 20 two_classes_with_floor, 25 two_classes_with_floor, 30 two_classes_with_floor, 60 two_classes_with_floor
    "#]].assert_eq(&text);
}
