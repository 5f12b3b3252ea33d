declare module "preact";
declare module "preact/hooks";
declare module "@preact/signals";
declare module "htm";
