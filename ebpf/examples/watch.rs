use memtrace_ebpf::*;
fn main(){ let t=std::time::Instant::now();
let mut k=match Kernel::load(Parts{faults:std::env::var("NOFAULTS").is_err(),calls:std::env::var("CALLS").is_ok()}){Ok(k)=>k,Err(e)=>{eprintln!("{e}");std::process::exit(1)}};
eprintln!("loaded {:?} missing {:?}",t.elapsed(),k.missing);
k.watch_children_of(std::process::id()).unwrap();
let a:Vec<String>=std::env::args().skip(1).collect();
let s=std::process::Command::new(&a[0]).args(&a[1..]).status();
eprintln!("{s:?}");
let mut n=0;
k.read(|e|{n+=1; if std::env::var("V").is_ok(){eprintln!("{e:?}")} else if let What::End{..}=e.what{eprintln!("{e:?}")}});
eprintln!("{n} events lost {:?} left {:?}",k.lost(),k.leftovers());
let t=std::time::Instant::now(); drop(k); eprintln!("drop {:?}",t.elapsed());
}
