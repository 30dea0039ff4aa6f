/** Copies a text, and says whether the browser allowed it. */

import { toast } from '../components/ui/Toast';
import { t } from './i18n';

export async function copyText(text: string, copied = t('common.copied')): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(copied);
  } catch {
    toast(t('common.notCopied'), { urgent: true });
  }
}
