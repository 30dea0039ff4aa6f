/** The part of the settings that is shown, in the address. */

export const PARTS = ['organisation', 'approvals', 'rules', 'usage', 'sources', 'webhooks'] as const;
export type Part = (typeof PARTS)[number];

export interface SettingsView {
  part?: Part;
}

export function parseSettingsView({ part }: Record<string, unknown>): SettingsView {
  const known = PARTS.find((one) => one === part);
  return known === undefined ? {} : { part: known };
}
