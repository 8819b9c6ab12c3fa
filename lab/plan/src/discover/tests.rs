use super::*;

const HOST: &str = include_str!("samples/hosts/gpu-a.txt");
const TABLE: &str = include_str!("samples/asus-esc8000a-e12.txt");
const DUMP: &str = include_str!("samples/ncv4-topo.xml");

fn given<'a>(hosts: &[(&'a str, &'a str)]) -> Vec<Given<'a>> {
    hosts.iter().map(|(server, said)| Given { server, said, nccl: "" }).collect()
}

/// Another output of the script, with these parts.
fn said(gpus: &str, topo: &str, nccl: &str, sysfs: &str) -> String {
    let parts = [("version", "1"), ("gpus", gpus), ("topo", topo), ("nccl", nccl)];
    let parts = parts.into_iter().chain([("sysfs", sysfs), ("end", "")]);
    parts.map(|(name, text)| format!("\n=== meridian discover: {name}\n{text}\n")).collect()
}

// A card to leave out that no server has is a mistake in its name.
#[test]
fn cards_to_leave_out_are_there() {
    let asked = |card: &str| Asked { leave_out: vec![card.to_owned()], ..Asked::default() };
    let found = discover(&given(&[("gpu-a", HOST)]), &asked("mlx5_7")).unwrap();
    assert!(found.print().contains("card mlx5_7 is left out: --leave-out"), "{}", found.print());
    let error = discover(&given(&[("gpu-a", HOST)]), &asked("mlx5_9")).unwrap_err();
    assert!(error.to_string().contains("--leave-out: mlx5_9"), "{error}");
}

// Two equal servers become one entry with their host names, and what no server knows is a comment.
#[test]
fn equal_servers_are_grouped() {
    let found = discover(&given(&[("gpu-a", HOST), ("gpu-b", HOST)]), &Asked::default()).unwrap();
    expect_test::expect![[r##"
        # Written by `meridian plan discover`.
        # assumed: all 2 servers are under the same access switches; --unit says otherwise
        # assumed: one access switch for all cards of a unit; --access says otherwise
        # gpu-a, gpu-b: card eno1 is left out: 125MB/s is less than 50GB/s
        # gpu-a, gpu-b: its cards are mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_4, mlx5_5, mlx5_6, mlx5_7
        version: 1
        name: discovered
        units:
        - count: 1
          access:
            count: 1
          servers:
          - count: 2
            hosts:
            - gpu-a
            - gpu-b
            gpu: h100
            gpus: 8
            nvlink: 450GB/s
            socket: 40GB/s
            numa:
            - 0
            - 0
            - 0
            - 0
            - 1
            - 1
            - 1
            - 1
            cards: 8
            card_rate: 50GB/s
            card_numa:
            - 0
            - 0
            - 0
            - 0
            - 1
            - 1
            - 1
            - 1
    "##]]
    .assert_eq(&found.print());
    let read = TopologySpec::read(&found.print()).unwrap();
    assert_eq!(read, found.spec, "comments do not hinder reading");
    assert_eq!(read.build().unwrap().servers()[1].name, "gpu-b");
}

// Units, rails and the core are as options state them, and unstated ones are marked.
#[test]
fn switches_are_stated() {
    let asked = Asked {
        units: vec![vec!["gpu-b".to_owned()], vec!["gpu-a".to_owned()]],
        access: Some(8),
        oversubscription: Some(2.0),
        ..Asked::default()
    };
    let found = discover(&given(&[("gpu-a", HOST), ("gpu-b", HOST)]), &asked).unwrap();
    let topology = found.spec.build().unwrap();
    assert_eq!((topology.access().len(), &*topology.servers()[0].name), (16, "gpu-b"));
    assert_eq!(topology.access()[0].uplink, 25e9);
    assert_eq!(found.notes[0], "assumed: one core switch; --core says otherwise");
    assert!(!found.notes.iter().any(|note| note.contains("--oversubscription")));
}

// A dump of NCCL that has more GPUs and fewer cards than the server is a conflict, and the present
// decides.
#[test]
fn sources_that_differ_are_reported() {
    let rows = "index, name, memory.total [MiB], pci.bus_id
0, NVIDIA A100 80GB PCIe, 81920 MiB, 00000001:00:00.0
1, NVIDIA A100 80GB PCIe, 81920 MiB, 00000002:00:00.0
2, NVIDIA A100 80GB PCIe, 81920 MiB, 00000003:00:00.0";
    let sysfs = "gpu\t0001:00:00.0\t0\ngpu\t0002:00:00.0\t1\ngpu\t0003:00:00.0\t2
net\teth0\t0000:3c:00.0\t0\tup\t50000\nnet\teth1\t0000:3d:00.0\t1\tup\t50000";
    let text = said(rows, "", DUMP, sysfs);
    let found = discover(&given(&[("nc", &text)]), &Asked::default()).unwrap();
    let server = &found.spec.units[0].servers[0];
    assert_eq!((server.gpus, server.cards, server.card_rate), (3, 2, Some(Rate(6.25e9))));
    assert_eq!((&server.numa[..], server.nvlink), (&[0, 1, 2][..], Some(Rate(300e9))));
    assert_eq!(
        found.conflicts,
        [
            "nc: NCCL's dump has 4 GPUs, nvidia-smi 3; 3 are in the file",
            "nc: NCCL's dump has 1 cards, the kernel 2; 2 are in the file",
            "nc: NCCL's dump has cards of 12.5GB/s, the kernel of 6.25GB/s; 6.25GB/s is in the file",
        ]
    );
    assert!(found.print().contains("# conflict: nc: NCCL's dump has 4 GPUs"));
    assert!(found.notes.iter().any(|note| note.contains("is planned as a100, with the clocks")));
}

// A real table of a server without NVLink, with GPUs that the planner does not know: the option
// names the kind to plan with. The table has no rate of cards, so they come from the kernel.
#[test]
fn a_table_alone_describes_a_server() {
    let rows = "index, name, memory.total [MiB], pci.bus_id
0, NVIDIA RTX 6000 Ada Generation, 49140 MiB, 00000000:01:00.0
1, NVIDIA RTX 6000 Ada Generation, 49140 MiB, 00000000:41:00.0
2, NVIDIA RTX 6000 Ada Generation, 49140 MiB, 00000000:C1:00.0
3, NVIDIA RTX 6000 Ada Generation, 49140 MiB, 00000000:E1:00.0";
    let text = said(rows, TABLE, "", "");
    let error = discover(&given(&[("asus", &text)]), &Asked::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("asus: GPU: NVIDIA RTX 6000 Ada Generation; give the kind"),
        "{error}"
    );
    let asked = Asked { gpu: Some("l40s".to_owned()), ..Asked::default() };
    let found = discover(&given(&[("asus", &text)]), &asked).unwrap();
    let server = &found.spec.units[0].servers[0];
    assert_eq!((server.gpus, server.nvlink, server.cards), (4, None, 0));
    assert_eq!(server.numa, [0, 0, 1, 1], "from the table, as the kernel said nothing");
    let silent = "asus: it shows no network card with a link and a rate".to_owned();
    assert!(found.notes.contains(&silent), "{:?}", found.notes);
}

// A dump beside the text replaces the one in it, and describes a server that has no nvidia-smi.
#[test]
fn a_dump_alone_describes_a_server() {
    let text = said("sh: nvidia-smi: not found", "sh: nvidia-smi: not found", "", "");
    let one = [Given { server: "nc", said: &text, nccl: DUMP }];
    let error = discover(&one, &Asked::default()).unwrap_err().to_string();
    assert!(error.starts_with("nc: nvidia-smi: sh: nvidia-smi: not found; nvidia-smi does not"));
    let asked = Asked { gpu: Some("a100".to_owned()), ..Asked::default() };
    let found = discover(&one, &asked).unwrap();
    let server = &found.spec.units[0].servers[0];
    assert_eq!((server.gpus, server.cards, server.card_rate), (4, 1, Some(Rate(12.5e9))));
    assert!(found.notes.iter().any(|note| note.starts_with("nc: nvidia-smi topo -m is not used")));
}

// All servers' problems come at once, and options that fit no server are named.
#[test]
fn problems_come_at_once() {
    let error = |hosts: &[(&str, &str)], asked: &Asked| {
        discover(&given(hosts), asked).unwrap_err().to_string()
    };
    let cut = &HOST[..HOST.len() - 30];
    let text = error(&[("a", "Permission denied"), ("b", cut)], &Asked::default());
    assert!(text.contains("a: output: Permission denied;"), "{text}");
    assert!(text.contains("b: end: "), "{text}");
    assert!(error(&[], &Asked::default()).starts_with("servers: none;"));
    let of = |units: &[&[&str]]| {
        let names = |names: &&[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Asked { units: units.iter().map(names).collect(), ..Asked::default() }
    };
    let both = [("gpu-a", HOST), ("gpu-b", HOST)];
    assert!(error(&both, &of(&[&["gpu-a", "gpu-x"]])).contains("--unit: gpu-x; use gpu-"));
    assert!(error(&both, &of(&[&["gpu-a"]])).contains("--unit: gpu-b in 0 units;"));
    let asked = Asked { gpu: Some("b300".to_owned()), ..Asked::default() };
    assert!(error(&both, &asked).starts_with("--gpu: b300; use "));
    let mixed = HOST.replacen("NVIDIA H100 80GB HBM3", "NVIDIA L40S", 1);
    let text = error(&[("a", &mixed)], &Asked::default());
    assert!(text.contains("a: GPU: NVIDIA L40S and NVIDIA H100 80GB HBM3; a server of"), "{text}");
}

// A server can't add lines to the file by the name of a card.
#[test]
fn names_stay_in_their_comment() {
    let odd = HOST.replace("mlx5_3", "mlx5\rname: other #");
    let found = discover(&given(&[("a", &odd)]), &Asked::default()).unwrap();
    let text = found.print();
    assert!(text.contains("mlx5 name: other #, mlx5_4") && !text.contains('\r'), "{text}");
    assert_eq!(TopologySpec::read(&text).unwrap(), found.spec);
}

// No text of a server makes it panic: samples cut off anywhere, and with single bytes changed.
#[test]
fn no_text_makes_it_panic() {
    let whole = said("", TABLE, DUMP, "net\ta\tb") + HOST;
    let asked = Asked { gpu: Some("h100".to_owned()), ..Asked::default() };
    for at in (0..whole.len()).step_by(7).filter(|at| whole.is_char_boundary(*at)) {
        let _ = discover(&given(&[("a", &whole[..at])]), &asked);
        let mut bytes = whole.clone().into_bytes();
        bytes[at] = b"\t-,9\n"[at % 5];
        let odd = String::from_utf8(bytes).unwrap();
        let _ = discover(&given(&[("a", &odd)]), &Asked::default());
    }
}
