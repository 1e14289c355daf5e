from cleave_trace.cli import main

raise SystemExit(main())
